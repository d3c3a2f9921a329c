"""The benchmark of an attempt runs at toy size, with every section it has."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "perf"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("diffusers"), reason="needs the extra 'local'"),
]


def test_every_section_runs_at_toy_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu_attempt

    results = tmp_path / "results.json"
    sections = ["--reference", "--alone", "--parts", "--trajectories", "1,3"]
    sections += ["--profile-run", "--requests", "2"]
    try:
        gpu_attempt.main(
            ["--toy", *sections, "--results", str(results), "--checkpoints", str(tmp_path / "hub")]
        )
    finally:
        for path in BENCHMARKS.glob("*.py"):
            sys.modules.pop(path.stem, None)
    rows = {row["what"]: row for row in json.loads(results.read_text())}
    assert rows["reference"]["attempts_per_hour"] > 0
    assert rows["reference"]["tokens"] == 48
    assert rows["alone"]["stepped"] and rows["alone"]["outcomes"] == ["accepted"]
    drawing, judging = rows["drawing"], rows["judging"]
    assert 0 < drawing["denoising"] < drawing["each"] and drawing["together"] == 4
    assert 0 < judging["reading"] < judging["each"] and judging["together"] == 32
    assert (rows["trajectories"]["trajectories"], rows["trajectories"]["attempts"]) == (3, 6)
    whole = rows["profile-run"]
    # two requests, each planned once, with two steps that are drawn and judged
    assert (whole["done"], whole["calls"], whole["documents"], whole["journals"]) == (2, 10, 2, 2)
    printed = capsys.readouterr().out
    assert "| attempts an hour, 3 trajectories" in printed and "--profile klein" in printed


def test_models_from_files_and_a_planner_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu_attempt

    results = tmp_path / "results.json"
    sections = ["--loading", "--alone", "--attempts", "1", "--kernels", "2", "--trajectories", "2"]
    question = tmp_path / "question"
    sections += ["--steps", "1", "--planned", "2", "--products", "--question", str(question)]
    try:
        gpu_attempt.main(["--toy", *sections, "--results", str(results)])
    finally:
        for path in BENCHMARKS.glob("*.py"):
            sys.modules.pop(path.stem, None)
    rows = {row["what"]: row for row in json.loads(results.read_text())}
    assert 0 < rows["loading"]["seconds"] <= rows["loading"]["ready"]  # toys may be ready at once
    assert rows["product"]["bf16"] > 0 and rows["kernels"]["together"] == 2
    assert rows["alone"]["outcomes"] == ["accepted"] and rows["alone"]["again"] > 0
    assert rows["trajectories"]["planner_asked"] and rows["trajectories"]["attempts"] == 2
    assert (question / "question.txt").read_text().count("<|image_pad|>") == 2
    assert {"config.json", "video_preprocessor_config.json"} <= {each.name for each in question.iterdir()}
    assert "the planner asked" in capsys.readouterr().out
