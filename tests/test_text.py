"""Text from outside: what is shown cannot steer a display, what names a folder is safe."""

from __future__ import annotations

import re

import pytest
from pydantic import Field

from interleave.errors import BackendError, InterleaveError, MissingDependency
from interleave.text import one_line, slug, storable_in, unusable, visible
from interleave.types import Value

HARMLESS = [
    "",
    "plain words, with punctuation – and “quotes”",
    "two\nlines\tand a tab",
    "Windows\r\nlines",
    "قطة تجلس على الحصيرة",
    "חתול על המחצלת",
    "mixed עברית and English",
    "left\u200eto\u200fright marks",
    "👩‍👩‍👧‍👦 🏖️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "สวัสดี नमस्ते 你好",
    "z̸̢̛̙a̵̧͓l̴̡̛g̶̢͝o̷̧͘",
    "non-breaking\u00a0space",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("safe\rEVIL", "safe␍EVIL"),
        ("ends\r", "ends␍"),
        ("\n\rx", "\n␍x"),
        ("\x00\x08", "␀␈"),
        ("\x7f\x9b31m\x85", "⟨U+007F⟩⟨U+009B⟩31m⟨U+0085⟩"),
        ("\u202egnp.exe\u202c", "⟨U+202E⟩gnp.exe⟨U+202C⟩"),
        ("\u2066a\u2069", "⟨U+2066⟩a⟨U+2069⟩"),
        ("a\u2028b\u2029c", "a⟨U+2028⟩b⟨U+2029⟩c"),
        ("file\udcff.png", "file⟨U+DCFF⟩.png"),
    ],
)
def test_what_could_steer_a_display_is_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_shown_text_can_always_be_written_to_a_utf8_terminal() -> None:
    shown = visible("".join(map(chr, range(0x11000))))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", shown)
    shown.encode("utf-8")


@pytest.mark.parametrize("text", HARMLESS)
def test_a_short_text_on_one_line_keeps_its_words(text: str) -> None:
    assert one_line(text).split() == text.split()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  a \n\n b\tc  ", "a b c"),
        ("a\r\nb", "a b"),
        ("a\rb", "a␍b"),
        ("\x1b[2Jx", "␛[2Jx"),
        ("   ", ""),
    ],
)
def test_one_line_is_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_long_line_is_cut_with_an_ellipsis() -> None:
    assert one_line("word " * 1_000_000, 20) == "word word word word…"
    assert one_line("x" * 100) == "x" * 100
    assert one_line("x" * 101) == "x" * 99 + "…"


@pytest.mark.parametrize("width", [1, 2, 10, 100])
def test_a_line_is_never_wider_than_asked(width: int) -> None:
    for text in [*HARMLESS, "\u202e" * 50, "👩‍👩‍👧‍👦" * 50]:
        assert len(one_line(text, width)) <= width


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("How a frog grows up!", "how-a-frog-grows-up"),
        ("Crème brûlée", "creme-brulee"),
        ("../../etc/passwd", "etc-passwd"),
        ("..", ""),
        ("a/b\\c:d*e?f", "a-b-c-d-e-f"),
        ("-rf /", "rf"),
        ("\x1b[31mred", "31mred"),
        ("قطة", ""),
        ("قطة cat", "cat"),
        ("👩‍👩‍👧", ""),
        ("half \ud83d a pair", "half-a-pair"),
        ("\udcff", ""),
        ("ﬁne ①", "fine-1"),
        ("", ""),
    ],
)
def test_a_slug_is_a_safe_folder_name(text: str, name: str) -> None:
    assert slug(text) == name


def test_a_slug_is_short_and_never_ends_in_a_dash() -> None:
    assert slug("a" * 39 + " b") == "a" * 39
    assert len(slug("word " * 1_000_000)) <= 40
    assert slug("ﷺ" * 65_536) == ""


@pytest.mark.parametrize("text", [*HARMLESS, "\x1b[31m", "\u202e"])
def test_text_that_can_be_stored_is_usable(text: str) -> None:
    assert unusable(text) is None


@pytest.mark.parametrize("text", ["a\x00b", "\ud83d", "\udcff"])
def test_text_that_cannot_be_stored_is_not(text: str) -> None:
    assert unusable(text) is not None


HALVES = {"a \udcff": ["\ud83d", ("x", 1, None), {"\udfff": True}]}
SPELLED_OUT = {"a \\udcff": ["\\ud83d", ("x", 1, None), {"\\udfff": True}]}


def test_I05_all_texts_of_a_value_are_spelled_out_where_no_file_can_hold_them() -> None:
    assert storable_in(HALVES) == SPELLED_OUT
    assert storable_in(dict.fromkeys(HARMLESS, HARMLESS)) == dict.fromkeys(HARMLESS, HARMLESS)


class Record(Value):
    name: str
    facts: dict[str, str] = Field(default_factory=dict)


@pytest.mark.parametrize("indent", [None, 1])
def test_I05_any_record_can_be_written_and_read_again(indent: int | None) -> None:
    written = Record(name="\ud83d", facts={"é\u2028": "\udcff"}).model_dump_json(indent=indent)
    read = Record.model_validate_json(written.encode())
    assert read == Record(name="\\ud83d", facts={"é\u2028": "\\udcff"})
    assert written.count("\n") == (5 if indent else 0)


def test_I05_a_record_of_plain_text_is_written_as_ever() -> None:
    assert Record(name="é").model_dump_json() == '{"name":"é","facts":{}}'


@pytest.mark.parametrize("kind", [InterleaveError, BackendError, MissingDependency])
def test_I05_the_message_of_an_error_can_be_written_anywhere(kind: type[Exception]) -> None:
    assert str(kind("no file \udcff")) == "no file \\udcff"
