"""Our BPE gives the tokens of the tokenizers library, whatever the text."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interleave import ConfigurationError
from interleave_mini import WEIGHTS
from interleave_mini.runtime.bpe import CHARACTERS, BytePairEncoding
from work import at_most_calls

tokenizers = pytest.importorskip("tokenizers")
FILES = {name: WEIGHTS / name / "tokenizer.json" for name in ("planner", "critic", "generator/tokenizer")}
PIECES = st.one_of(
    st.sampled_from(
        ["half-", "frog", " at the top left", " at the top lef", "<think>", "<|im_end|>", "lift-off"]
    ),
    st.sampled_from([" ", "  ", "\n", "\x1c", "\x85", "'", "’", "-", "4", "²", "Ⅷ", "\u200b", "𱍐", "🐸"]),
    st.text(max_size=4),
)


@cache
def both(name: str) -> tuple[BytePairEncoding, Any]:
    return BytePairEncoding(FILES[name]), tokenizers.Tokenizer.from_file(str(FILES[name]))


@pytest.mark.parametrize("name", FILES)
@given(text=st.lists(PIECES, max_size=12).map("".join))
@example("How a frog grows up, step by step, in four pictures")
@settings(deadline=None)
def test_tokens_are_those_of_the_library(name: str, text: str) -> None:
    ours, library = both(name)
    ids = ours.encode(text)
    assert ids == library.encode(text).ids
    assert ours.decode(ids) == library.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("name", FILES)
@given(ids=st.lists(st.integers(0, 3200), max_size=20))
@settings(deadline=None)
def test_tokens_in_any_order_are_decoded_as_by_the_library(name: str, ids: list[int]) -> None:
    ours, library = both(name)
    assert ours.decode(ids) == library.decode(ids, skip_special_tokens=True)


@pytest.mark.slow
@pytest.mark.parametrize("around", ["{}", "{}-up"])
def test_every_character_of_unicode_is_split_as_by_the_library(around: str) -> None:
    ours, library = both("planner")
    points = [point for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    for start in range(0, len(points), 50_000):
        text = "".join(around.format(chr(point)) for point in points[start : start + 50_000])
        assert ours.encode(text) == library.encode(text).ids, hex(points[start])


@pytest.mark.slow
def test_the_shipped_classes_of_characters_are_those_of_the_library(tmp_path: Path) -> None:
    characters = pytest.importorskip("miniature.export.characters")
    written = characters.write_characters(tmp_path / "characters.json")
    assert written.read_bytes() == CHARACTERS.read_bytes(), "run `interleave mini onnx`"


def test_the_work_of_a_long_word_grows_as_the_word() -> None:
    ours, _ = both("planner")
    letters = "tadpole" * 3000
    with at_most_calls(10 * len(letters)):
        ours.encode(letters)


def test_a_tokenizer_of_another_kind_is_refused(tmp_path: Path) -> None:
    content = json.loads(FILES["planner"].read_bytes())
    content["normalizer"] = {"type": "NFC"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(ConfigurationError, match="splits text in another way"):
        BytePairEncoding(tmp_path / "tokenizer.json")
