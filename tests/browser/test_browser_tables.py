"""What the build of the page takes from the miniature is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interleave_mini.language.sentences import SPEECH
from interleave_mini.language.words import one_of

SOURCE = Path(__file__).parent.parent.parent / "browser"


@pytest.fixture(scope="module")
def assemble() -> ModuleType:
    spec = util.spec_from_file_location("assemble", SOURCE / "assemble.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["assemble"] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_of_the_models_exists(assemble: ModuleType) -> None:
    groups = assemble.model_files()
    missing = [path for paths in groups.values() for path in paths if not path.is_file()]
    assert missing == []
    names = {path.name for path in groups["generator"]}
    assert {"transformer.onnx", "encoder.onnx", "decoder.onnx", "text_encoder.onnx"} <= names


def test_the_words_of_requests_and_the_texts_around_messages_can_be_written(assemble: ModuleType) -> None:
    facts, tables = assemble.model_facts(), assemble.reading_tables()
    assert facts["planner"]["template"]["image"].count("<|image_pad|>") == 1
    assert facts["pack"]["planner_text"][-1]["pieces"][1] == "request"
    words = tables["vocabulary"]
    assert "cat" in words["everyday"].split()
    assert all(words[name] for name in ("neighbours", "meant", "foreign", "telling", "examples"))
    assert tables["world"]["kinds"]["cat"]["category"] == "animal"
    assert set(tables["world"]["speech"]) == {"row", *SPEECH}


def test_sets_of_words_become_the_same_expression_in_every_process() -> None:
    """The name of the folder with the models is a digest of them."""
    assert one_of({"cat", "b", "a", "dog"}) == one_of({"dog", "a", "b", "cat"}) == "(?:cat|dog|a|b)"


def test_no_expression_keeps_the_syntax_of_python(assemble: ModuleType) -> None:
    patterns = [*texts_in(assemble.step_count_tables())]
    for tables in assemble.reading_tables().values():
        patterns += texts_in([tables.get(name, []) for name in ("expressions", "gaps", "wholes", "meantBy")])
    assert len(patterns) > 100
    assert [text for text in patterns if re.search(r"\(\?P|\\Z|\(\?[aiLmsux]", text)] == []


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def test_the_page_asks_no_other_host_and_writes_no_markup() -> None:
    page = (SOURCE / "index.html").read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1] and "connect-src 'self'" in policy[1] and "http" not in policy[1]
    sources = [path.read_text("utf-8") for path in (SOURCE / "src").rglob("*.ts")]
    assert [text[:60] for text in sources if re.search(r"innerHTML|https?://(?!127)", text)] == []
