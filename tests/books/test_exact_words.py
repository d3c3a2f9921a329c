"""Every word of a document is in every format, letter by letter, in any language and with any text."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import tomllib
import unicodedata
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interleave import InputError, generate
from interleave.books.book import book_of, clean, heading_of
from interleave.books.fonts import own_characters
from interleave.books.pages import set_pages
from interleave.render.exports import ExportOptions, PageLayout, export_run
from interleave.runs.document_layer import DocumentLayer, StepLayer
from interleave.runs.record import RunRecord, read_record
from interleave.types import Lettering, Plan, PlanStep

pypdf = pytest.importorskip("pypdf")
pytest.importorskip("typst")
pytest.importorskip("pptx")
FONTS = Path(__file__).parent / "fonts"
LAYOUTS = get_args(PageLayout)
OTHERS = ("epub", "fixed-epub", "pptx", "cbz", "zip", "html", "texts")
LETTERS = "".join(
    sorted(
        each
        for each in own_characters()
        if unicodedata.category(each)[0] in "LNPS"
        and unicodedata.bidirectional(each) in ("L", "EN", "ON", "ES", "ET", "CS")
        and unicodedata.normalize("NFKC", each) == each
    )
)
MARKUP = [
    "#let x",
    "*b*",
    "$a$",
    "<b>",
    "&amp;",
    "]]>",
    "\\",
    "{{ x }}",
    "`c`",
    "@a",
    "//",
    "=",
    "- ",
    "'",
    '"',
    "[1]",
]
HOSTILE = st.lists(
    st.one_of(st.text(LETTERS, min_size=1, max_size=12), st.sampled_from(MARKUP)), min_size=1, max_size=12
).map(" ".join)
FEW = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True)
def fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_ONLY_FONTS", "1")
    monkeypatch.setenv("INTERLEAVE_FONTS", str(FONTS))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words") / "run"
    steps = (
        PlanStep(number=1, name="Start", prompt="an egg", caption="One egg."),
        PlanStep(number=2, prompt="two eggs", caption="Two eggs."),
        PlanStep(number=3, caption="The end."),
    )
    generate("Eggs", profile="dry-run", generator="solid?size=64", plan=Plan(steps=steps), out=folder)
    return folder


def with_words(
    folder: Path, title: str, texts: list[str], heading: str = "", letters: tuple[Lettering, ...] = ()
) -> RunRecord:
    """The record of a run as if a person had written these words."""
    layers = {number: StepLayer(text=text) for number, text in enumerate(texts, start=1)}
    layers[1] = StepLayer(text=texts[0], name=heading, lettering=letters)
    return read_record(folder).model_copy(update={"words": DocumentLayer(title=title, steps=layers)})


def squeezed(text: str) -> str:
    return "".join(text.split())


def in_pdf(data: bytes) -> str:
    return squeezed("".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages))


def in_format(name: str, data: bytes) -> str:
    """The words that a reader of the file meets, without spaces."""
    if name == "html":
        return squeezed(
            html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", "", data.decode(), flags=re.DOTALL))
        )
    if name == "texts":
        return squeezed("".join(each["original"] for each in tomllib.loads(data.decode())["words"]))
    if name == "pptx":
        import pptx

        slides = pptx.Presentation(io.BytesIO(data)).slides
        frames = [shape.text_frame for slide in slides for shape in slide.shapes if shape.has_text_frame]
        return squeezed("".join(frame.text for frame in frames))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if name == "zip":
            return squeezed(re.sub(r"\\(.)", r"\1", archive.read("document.md").decode()))
        pages = (
            ["ComicInfo.xml"]
            if name == "cbz"
            else sorted(each for each in archive.namelist() if "xhtml" in each)
        )
        roots = [ElementTree.fromstring(archive.read(page)) for page in pages]
        bodies = [next(root.iter("{http://www.w3.org/1999/xhtml}body"), root) for root in roots]
        return squeezed("".join("".join(body.itertext()) for body in bodies))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_word_is_in_a_pdf_of_each_layout(made: Path, layout: Any) -> None:
    @FEW
    @given(st.tuples(HOSTILE, HOSTILE, HOSTILE), HOSTILE, HOSTILE)
    def each_text(texts: tuple[str, str, str], heading: str, label: str) -> None:
        letters = (
            Lettering(kind="speech", text=texts[1], target=heading[:100], at=(0.5, 0.6)),
            Lettering(kind="label", text=label, at=(0.2, 0.3)),
        )
        record = with_words(made, "Title", list(texts), heading[:200], letters)
        found = in_pdf(export_run(made, record, "pdf", ExportOptions(layout=layout)).data)
        wanted = [heading_of(heading[:200]), clean(texts[1]), clean(texts[2]), clean(label), "Title"]
        assert [words for words in wanted if squeezed(words) not in found] == []
        if layout != "worksheet":  # its sentences have blanks; the answers follow
            assert squeezed(clean(texts[0])) in found

    each_text()


@pytest.mark.parametrize("name", OTHERS)
def test_every_word_is_in_the_other_formats(made: Path, name: str) -> None:
    @FEW
    @given(st.tuples(HOSTILE, HOSTILE, HOSTILE), HOSTILE, HOSTILE)
    def each_text(texts: tuple[str, str, str], heading: str, label: str) -> None:
        letters = (
            Lettering(kind="speech", text=texts[1], target="Ann", at=(0.5, 0.6)),
            Lettering(kind="label", text=label),
        )
        record = with_words(made, "Title", list(texts), heading[:200], letters)
        found = in_format(name, export_run(made, record, name).data)
        wanted = ["Title", heading_of(heading[:200]), *map(clean, texts), clean(label)]
        missing = [
            words for words in wanted if squeezed(words).replace("\\", "") not in found.replace("\\", "")
        ]
        assert missing == []

    each_text()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_text_too_long_for_its_page_goes_on_on_the_next(made: Path, layout: Any) -> None:
    long = " ".join(f"word{number}" for number in range(1500))
    record = with_words(made, "Title", [long, "short", "end"])
    found = in_pdf(export_run(made, record, "pdf", ExportOptions(layout=layout)).data)
    assert [word for word in long.split() if word not in found] == []
    fixed = in_format("fixed-epub", export_run(made, record, "fixed-epub").data)
    assert squeezed(long) in fixed


ARABIC = "قطة حمراء صغيرة تجلس بجانب البيت."
CHINESE = "一只小红猫坐在房子旁边。"
HEBREW = "חתול אדום קטן יושב ליד הבית."


def texts_file(made: Path, record: RunRecord, language: str, text: str) -> Path:
    """The file that a person has filled with one text for everything."""
    data = export_run(made, record, "texts").data.decode()
    path = made.parent / f"{language}.toml"
    data = data.replace('language = ""', f'language = "{language}"')
    path.write_text(data.replace('\ntext = ""', f"\ntext = {json.dumps(text)}"), "utf-8")
    return path


@pytest.mark.parametrize(
    ("language", "text"), [("ar", ARABIC), ("zh", CHINESE), ("he", HEBREW)], ids=("ar", "zh", "he")
)
@pytest.mark.parametrize("layout", ["one", "comic", "slides"])
def test_two_languages_stand_together_in_any_direction(
    made: Path, layout: Any, language: str, text: str
) -> None:
    letters = (Lettering(kind="speech", text="Hello", at=(0.5, 0.6)),)
    record = with_words(made, "Title", ["A cat.", "A dog.", "End."], "First", letters)
    options = ExportOptions(layout=layout, texts=(texts_file(made, record, language, text),))
    found = in_pdf(export_run(made, record, "pdf", options).data)
    for word in text.rstrip("。.").split():  # typst writes right-to-left words in visual order
        assert word in found or word[::-1] in found, word
    counted = Counter(found)
    wanted = Counter(squeezed(text))
    times = 5 if layout == "one" else 4
    assert all(counted[each] >= wanted[each] * times for each in wanted)
    for name in ("epub", "fixed-epub", "pptx", "zip", "html"):
        other = in_format(name, export_run(made, record, name, options).data)
        assert squeezed(text) in other and "A cat.".replace(" ", "") in other


def test_pages_of_readers_have_fonts_for_other_scripts_in_them(made: Path) -> None:
    from fontTools.ttLib import TTFont

    record = with_words(made, "Title", ["A cat.", "A dog.", "End."])
    options = ExportOptions(texts=(texts_file(made, record, "zh", CHINESE),))
    page = export_run(made, record, "html", options).data.decode()
    (in_page,) = re.findall(r"url\(data:font/woff;base64,([^)]+)\)", page)
    for name in ("epub", "fixed-epub"):
        with zipfile.ZipFile(io.BytesIO(export_run(made, record, name, options).data)) as archive:
            assert b'href="fonts/book-1.woff"' in archive.read("book/package.opf")
            assert b":lang(zh)" in archive.read("book/book.css")
            data = archive.read("book/fonts/book-1.woff")
            assert data == base64.b64decode(in_page)
    characters = set(TTFont(io.BytesIO(data)).getBestCmap())
    assert {ord(each) for each in CHINESE if each.isalpha()} <= characters and len(characters) < 60
    plain = export_run(made, record, "html").data
    assert b"@font-face" not in plain


def test_right_to_left_text_is_marked_as_such(made: Path) -> None:
    record = with_words(made, "Title", ["A cat.", "A dog.", "End."])
    options = ExportOptions(languages=("ar",), texts=(texts_file(made, record, "ar", ARABIC),))
    with zipfile.ZipFile(io.BytesIO(export_run(made, record, "epub", options).data)) as archive:
        assert b'page-progression-direction="rtl"' in archive.read("book/package.opf")
        assert b'lang="ar" xml:lang="ar" dir="rtl"' in archive.read("book/step-0001.xhtml")
    with zipfile.ZipFile(io.BytesIO(export_run(made, record, "pptx", options).data)) as archive:
        assert b'rtl="1"' in archive.read("ppt/slides/slide2.xml")


def test_a_missing_glyph_is_an_error_that_names_the_font(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = with_words(made, "Title", ["中文", "مرحبا", "End."])
    monkeypatch.delenv("INTERLEAVE_FONTS")
    with pytest.raises(InputError, match=r"中 \(U\+4E2D\).*Naskh Arabic and Noto Serif CJK"):
        export_run(made, record, "pdf")
    assert "中文" in in_format("epub", export_run(made, record, "epub").data)  # readers bring their fonts


def test_the_list_of_the_characters_of_typsts_font_is_true(made: Path) -> None:
    """PDF/UA refuses a page with a glyph that its font lacks."""
    shown = "".join(sorted(own_characters()))
    record = with_words(made, "Title", [shown, "a", "b"])
    assert set_pages(book_of(made, record), ExportOptions(), "pdf")
