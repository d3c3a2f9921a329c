"""Requests of the miniature: balanced, of one split, and understood by its own oracle."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from interleave.batches.requests import read_requests
from interleave.cli.main import run
from interleave.train.data.manifest import read_manifest
from interleave_mini.bench.splits import is_held_out_pair
from interleave_mini.bench.tasks import SUITES
from interleave_mini.requests import accept_request
from miniature.grammar.tasks import NARRATION, OWN_STEPS, parse_task
from miniature.grammar.topics import DOMAINS

ITEMS = str(10 * len(SUITES))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mini") / "requests.jsonl"
    assert run(["data", "prompts", "--source", "mini", "--items", ITEMS, "--out", str(path)]) == 0
    return path


def rows_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_suite_has_its_share_and_rows_say_where_they_stand(corpus: Path) -> None:
    rows = rows_of(corpus)
    assert {suite: sum(row["suite"] == suite for row in rows) for suite in SUITES} == dict.fromkeys(
        SUITES, 10
    )
    assert all(row["domain"] and row["subcategory"] and row["template"] for row in rows)
    assert {row["split"] for row in rows} == {"train"}


def test_the_stories_and_any_first_part_of_them_are_even_over_domains_and_topics(tmp_path: Path) -> None:
    every = {(domain, topic.name) for domain, topics in DOMAINS.items() for topic in topics}
    every |= {(OWN_STEPS, OWN_STEPS), (NARRATION, NARRATION)}
    command = ["data", "prompts", "--source", "mini", "--suite", "story", "--items", str(2 * len(every))]
    assert run([*command, "--out", "r.jsonl"]) == 0
    keys = [(row["domain"], row["subcategory"]) for row in rows_of(tmp_path / "r.jsonl")]
    assert max(Counter(keys).values()) <= 3, "a topic that is rare among those drawn may come once"
    assert set(keys[: len(every)]) == every
    assert {domain for domain, _ in keys[: len(DOMAINS) + 2]} == {*DOMAINS, OWN_STEPS, NARRATION}


def test_suites_come_in_turn_and_take_different_topics_first(corpus: Path) -> None:
    rows = rows_of(corpus)
    assert [row["suite"] for row in rows] == [*SUITES] * 10
    told = [(row["domain"], row["subcategory"]) for row in rows if row["suite"] in ("story", "continue")]
    assert len(set(told)) == 20


def test_the_oracle_takes_every_request(corpus: Path) -> None:
    items, problems = read_requests(corpus)
    assert len(items) == int(ITEMS) and not problems
    for item in items:
        accept_request(item.load(), {})


def test_K14_no_split_has_a_request_of_another_or_what_training_never_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("miniature.request_source.DRAWS_WITHOUT_NEWS", 0)  # topics need not be even
    seen: dict[str, set[str]] = {}
    for split in ("train", "validation", "test"):
        command = ["data", "prompts", "--source", "mini", "--suite", "story", "--items", "20"]
        assert run([*command, "--split", split, "--out", f"{split}.jsonl"]) == 0
        assert {row["split"] for row in rows_of(tmp_path / f"{split}.jsonl")} == {split}
        seen[split] = {str(row["request"]) for row in rows_of(tmp_path / f"{split}.jsonl")}
        assert len(seen[split]) == 20
    assert not seen["train"] & seen["test"] and not seen["train"] & seen["validation"]
    for text in seen["train"]:
        scenes = [step.scene for step in parse_task([text]).steps]
        assert not any(is_held_out_pair(thing) for scene in scenes for thing in scene.things.values())


def test_K13_the_same_seed_gives_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    again = tmp_path / "again" / "requests.jsonl"
    assert run(["data", "prompts", "--source", "mini", "--items", ITEMS, "--out", str(again)]) == 0
    assert again.read_bytes() == corpus.read_bytes()
    names = {each.name for each in (corpus.parent / "images").iterdir()}
    assert names == {each.name for each in (again.parent / "images").iterdir()}
    assert read_manifest(again.with_name("requests.manifest.json")).options["seed"] == 0


def test_more_than_the_grammar_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miniature.grammar.tasks._TRIES", 300)
    command = ["data", "prompts", "--source", "mini", "--suite", "annotate", "--split", "validation"]
    monkeypatch.setattr("miniature.request_source.DRAWS", 1)
    monkeypatch.setattr("miniature.request_source.DRAWS_WITHOUT_NEWS", 0)
    code = run([*command, "--items", "3", "--out", "r.jsonl"])
    assert code == 0
    monkeypatch.setattr("miniature.grammar.tasks._TRIES", 1)
    assert run([*command, "--items", "50", "--out", "s.jsonl"]) == 2
    assert not (tmp_path / "s.jsonl").exists()
