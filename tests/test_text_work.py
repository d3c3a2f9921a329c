"""Work over text from outside that is no regular expression: counted, and no more than the text warrants."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from interleave.agents.replies import parse_verdict
from interleave.config.specs import parse_spec
from interleave.errors import ConfigurationError, InputError
from interleave.remote.comfyui_workflow import read_workflow
from interleave.train.data.prompts import stage, taxonomy
from interleave.train.data.prompts.corpus import RequestRow
from interleave.types import Request
from interleave_mini.language import vocabulary
from interleave_mini.requests import check_words
from miniature.grammar import variants


def workflow(path: Path, nodes: dict[str, Any]) -> Path:
    path.write_text(json.dumps(nodes))
    return path


def link(node: int) -> list[Any]:
    return [str(node), 0]


def test_a_workflow_may_be_deep_and_go_in_circles(tmp_path: Path) -> None:
    deep = {str(n): {"class_type": "Reroute", "inputs": {"x": link(n + 1)}} for n in range(1, 5_000)}
    deep["5000"] = {"class_type": "Encode", "inputs": {"text": "here"}}
    deep["0"] = {"class_type": "Sampler", "inputs": {"positive": link(1), "seed": 1}}
    assert read_workflow(str(workflow(tmp_path / "deep.json", deep)), {}, None).prompts == (("5000", "text"),)
    deep["5000"] = {"class_type": "Reroute", "inputs": {"x": link(1)}}
    with pytest.raises(ConfigurationError, match="has no prompt input"):
        read_workflow(str(workflow(tmp_path / "circle.json", deep)), {}, None)


class Looked(dict[str, Any]):
    looks = 0

    def __getitem__(self, key: str) -> Any:
        Looked.looks += 1
        return super().__getitem__(key)


def test_what_many_samplers_share_is_walked_once() -> None:
    from interleave.remote.comfyui_workflow import _positive_texts

    chain = {str(n): {"class_type": "Reroute", "inputs": {"x": link(n + 1)}} for n in range(200)}
    chain["200"] = {"class_type": "Encode", "inputs": {"text": "here"}}
    samplers = {f"s{n}": {"class_type": "Sampler", "inputs": {"positive": link(0)}} for n in range(200)}
    assert _positive_texts(Looked(chain | samplers)) == (("200", "text"),)
    assert Looked.looks <= 2 * 401


def test_a_node_may_have_any_name(tmp_path: Path) -> None:
    nodes = {name: {"class_type": "LoadImage", "inputs": {}} for name in ("9" * 5_000, "²", "10", "2")}
    nodes["1"] = {"class_type": "Encode", "inputs": {"text": "{{prompt}}"}}
    path = workflow(tmp_path / "names.json", nodes)
    assert read_workflow(str(path), {}, None).loaders == ("2", "10", "9" * 5_000, "²")


def test_many_tails_of_a_request_are_not_sought_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    pattern = variants._TAIL

    class Counted:
        def search(self, text: str, start: int = 0, end: int | None = None) -> Any:
            nonlocal looked_at
            end = len(text) if end is None else end
            looked_at += end - start
            return pattern.search(text, start, end)

    monkeypatch.setattr(variants, "_TAIL", Counted())
    text = "How a frog grows up" + ", please" * 1_000 + " in four pictures"
    assert list(variants.variants(text))[1] == variants.Variant("How a frog grows up", 4)
    assert looked_at <= 10 * len(text)


def test_of_many_foreign_words_a_few_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr(vocabulary, "_meant", looked_up.append)
    words = " ".join(f"xq{chr(97 + n % 26)}{'v' * (n // 26)}" for n in range(500))
    assert vocabulary.corrections(words) == {}
    assert 0 < len(looked_up) <= 6
    with pytest.raises(InputError, match="and 494 more"):
        check_words(Request.of(words))
    with pytest.raises(InputError) as refused:
        check_words(Request.of("x" * 60_000))
    assert len(str(refused.value)) < 600


def test_an_error_hides_what_may_be_a_password_and_nothing_else() -> None:
    for spec, shown in [
        ("http://user:pa//ss@host@x", "'http://…@x'"),
        ("openai:m@http://me:secret@h/v1", "'openai:m@http://…@h/v1'"),
    ]:
        with pytest.raises(ConfigurationError) as refused:
            parse_spec(spec)
        assert shown in str(refused.value)


def test_a_word_given_twice_is_found_without_comparing_all() -> None:
    class Word(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Word.compared += 1
            return str.__eq__(self, other)  # type: ignore[arg-type]

        __hash__ = str.__hash__

    words = tuple(Word(f"word {n}") for n in range(1_000))
    with pytest.raises(ValueError, match="'word 999' is listed twice"):
        taxonomy._usable((*words, Word("word 999")))
    assert Word.compared < 10 * len(words)


def test_choosing_evenly_takes_no_round_for_each_request() -> None:
    def row(number: int, name: str) -> RequestRow:
        return RequestRow(id=str(number), request="Draw a cat", domain="d", subcategory=name)

    rows = [row(n, "large" if n % 2 else f"small {n}") for n in range(400)]
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace if frame.f_code.co_filename == stage.__file__ else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        chosen = stage._balanced(rows, 300)
    finally:
        sys.settrace(before)
    assert [int(each.id) for each in chosen] == [n for n in range(400) if n % 2 == 0 or n < 200]
    assert lines < 20 * len(rows)


def test_many_thoughts_are_one_reasoning() -> None:
    reply = "<think>a</think>" * 3 + '<answer>{"success": true}</answer>'
    assert parse_verdict(reply).reasoning == "aaa"
