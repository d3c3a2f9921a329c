"""`interleave mini label`: attempts of the miniature with labels of its oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave.bench.labels import read_labels
from interleave.cli.main import run


def test_attempts_are_labelled_by_the_reader_and_not_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "labels"
    command = ["mini", "label", "--generator", "world?mistakes=0.5", "--attempts", "12", "--out", str(out)]
    assert run([*command, "--critic", "oracle", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["attempts"] == facts["judged"] == 12 and 0 < facts["wrong"] < 12
    labels = read_labels(Path(facts["labels"]))
    assert [each.critic.accepted for each in labels if each.critic] == [each.value for each in labels]
    assert all(each.picture and (out / each.picture).is_file() for each in labels)
    assert all(each.rater == "oracle" and each.prompt and each.blind for each in labels)
    images = {path: path.stat().st_mtime_ns for path in (out / "images").iterdir()}
    assert run(command) == 0
    assert {path: path.stat().st_mtime_ns for path in (out / "images").iterdir()} == images
    again = read_labels(out / "labels.jsonl")
    assert [(each.run, each.step, each.value) for each in again] == [
        (each.run, each.step, each.value) for each in labels
    ]
    assert all(each.critic is None for each in again)
