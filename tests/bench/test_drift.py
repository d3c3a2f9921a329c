"""`interleave bench drift`: chains, cells, marks, resuming, scores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.bench.drift.chains import Chain, FileChains, ImageChains, Link, with_history
from interleave.bench.drift.run import Cell, DriftRun, DriftSettings, StepLine
from interleave.bench.drift.scores import score
from interleave.cli.main import run as run_command
from interleave.config.run_config import DriftControl
from interleave.drift.measures import StepDrift
from interleave.errors import BackendError, ConfigurationError, InputError


class Fading:
    """Every edit of it is a level darker; an image from nothing is grey. Stops after so many images."""

    capabilities = GeneratorCapabilities()

    def __init__(self, stops_after: int | None = None) -> None:
        self.asked: list[ImageRequest] = []
        self.stops_after = stops_after

    async def generate(self, request: ImageRequest) -> Image.Image:
        if len(self.asked) == self.stops_after:
            raise BackendError("out of paint")
        self.asked.append(request)
        if not request.sources:
            return Image.new("RGB", (32, 32), (100, 100, 100))
        return request.sources[0].point(lambda level: max(0, level - 1))


class Greys:
    """Chains in which an image is right while it is at least a little bright."""

    def chains(self, protocol: str, count: int, steps: int, seed: int) -> list[Chain]:
        start = Image.new("RGB", (32, 32), (100, 100, 100))
        links = (Link("go on", "grey", truth=97, equals_start=True),) * steps
        return [Chain(f"c{number}", start, links, whole_starts_from_first=False) for number in range(count)]

    def right(self, images: Sequence[Image.Image], truths: Sequence[Any]) -> list[bool] | None:
        return [image.getextrema()[0][0] >= truth for image, truth in zip(images, truths, strict=True)]

    def mixed_up(self, image: Image.Image, truth: Any) -> bool:
        return False


def settings(**changes: Any) -> DriftSettings:
    cells = (
        Cell(protocol="chain", name="plain", remedies=DriftControl()),
        Cell(protocol="chain", name="anchor", remedies=DriftControl(anchor_every=3)),
        Cell(protocol="chain", name="keep", remedies=DriftControl(keep=True)),
    )
    return DriftSettings(**({"generator": "fading", "cells": cells, "chains": 2, "marks": (5, 10)} | changes))


def measured(folder: Path, generator: Fading, **changes: Any) -> list[StepLine]:
    return asyncio.run(DriftRun(folder, settings(**changes), generator, Greys()).run())


def test_cells_are_measured_side_by_side(tmp_path: Path) -> None:
    lines = measured(tmp_path, generator := Fading())
    assert len(lines) == len(generator.asked) == 3 * 2 * 10
    plain, anchor, keep = score(settings(), lines)
    assert [mark.right.mean for mark in plain.marks if mark.right] == [0.6, 0.0]  # right until step 3
    assert [mark.right.mean for mark in anchor.marks if mark.right] == [1.0, 1.0]
    assert [mark.right.mean for mark in keep.marks if mark.right] == [1.0, 1.0]
    assert [mark.all_right.mean for mark in plain.marks if mark.all_right] == [0.0, 0.0]
    assert plain.marks[-1].from_first is not None
    assert plain.marks[-1].from_first.mean == pytest.approx(8)  # steps 6 to 10
    assert plain.calls == 20
    assert {line.step for line in lines if line.anchored} == {4, 7, 10}


@pytest.mark.parametrize("after", [1, 7, 30, 59])
def test_a_measurement_that_was_stopped_goes_on(tmp_path: Path, after: int) -> None:
    whole = measured(tmp_path / "whole", Fading())
    with pytest.raises(BackendError, match="out of paint"):
        measured(tmp_path / "cut", Fading(after))
    rest = measured(tmp_path / "cut", again := Fading())

    def said(lines: list[StepLine]) -> list[dict[str, Any]]:
        plain = (line.model_dump(exclude={"seconds"}) for line in lines)
        return sorted(plain, key=lambda line: (line["cell"], line["chain"], line["step"]))

    assert said(rest) == said(whole)
    assert len(again.asked) <= 60 - after + 6  # those of a step are under way at once


def test_a_torn_line_is_measured_again(tmp_path: Path) -> None:
    measured(tmp_path, Fading(), marks=(2,))
    steps = tmp_path / "steps.jsonl"
    steps.write_bytes(steps.read_bytes()[:-5])
    assert len(measured(tmp_path, again := Fading(), marks=(2,))) == 12
    assert len(again.asked) == 1


def test_only_the_images_at_marks_and_the_latest_two_stay(tmp_path: Path) -> None:
    measured(tmp_path, Fading(), marks=(2, 6))
    kept = sorted(path.name for path in (tmp_path / "pictures" / "chain-plain" / "c0").iterdir())
    assert kept == ["2.png", "5.png", "6.png"]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    measured(tmp_path, Fading(), marks=(1,))
    with pytest.raises(ConfigurationError, match="other settings"):
        measured(tmp_path, Fading(), marks=(2,))


def line(chain: str, step: int, right: bool) -> StepLine:
    drift = StepDrift(changed=0, outside=1, likeness=1)
    plain: dict[str, Any] = {"cell": "chain-plain", "calls": 1, "anchored": False, "seconds": 0.0}
    return StepLine(
        chain=chain, step=step, right=right, drift=drift, from_first=0, equals_start=False, **plain
    )


def test_intervals_are_over_chains() -> None:
    """Ten chains that are right or wrong as a whole are ten values, not fifty."""
    lines = [line(f"c{chain}", step, chain < 5) for chain in range(10) for step in range(1, 6)]
    [cell, *_] = score(settings(chains=10, marks=(5,)), lines)
    right = cell.marks[0].right
    assert right is not None
    assert right.mean == 0.5
    assert right.high - right.low > 0.5


def test_marks_that_not_all_chains_have_reached_are_left_out() -> None:
    lines = [line("c0", step, True) for step in range(1, 6)] + [
        line("c1", step, True) for step in range(1, 3)
    ]
    [cell, *_] = score(settings(marks=(2, 5)), lines)
    assert [mark.step for mark in cell.marks] == [2]


@pytest.mark.parametrize("protocol", ["noop", "cycle", "chain"])
def test_any_generator_has_chains_over_images(protocol: Any) -> None:
    image = Image.new("RGB", (8, 8))
    chains = ImageChains([image]).chains(protocol, 3, 4, 0)
    assert [len(chain.links) for chain in chains] == [4, 4, 4]
    back = [link.equals_start for link in chains[0].links]
    assert back == {"noop": [True] * 4, "cycle": [False, True] * 2, "chain": [False] * 4}[protocol]


def test_without_a_description_the_whole_is_all_edits_so_far() -> None:
    assert [link.whole for link in with_history([Link("a"), Link("b", "both"), Link("c")])] == [
        "1. a",
        "both",
        "1. a 2. b 3. c",
    ]


def test_chains_come_from_a_file(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "start.png")
    path = tmp_path / "chains.jsonl"
    path.write_text(json.dumps({"id": "x", "image": "start.png", "prompts": ["one", "two"]}) + "\n")
    [chain] = FileChains(path).chains("chain", 5, 9, 0)
    assert [link.prompt for link in chain.links] == ["one", "two"]


@pytest.mark.parametrize("text", ["", "{}", "no", '{"id": 1}'])
def test_a_bad_file_of_chains_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "chains.jsonl").write_text(text)
    with pytest.raises(InputError, match="chain"):
        FileChains(tmp_path / "chains.jsonl")


def test_the_command_measures_the_miniature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "bench",
        "drift",
        "--generator",
        "world",
        "--chains",
        "2",
        "--steps",
        "2,3",
        "--out",
        str(tmp_path / "d"),
    ]
    assert (
        run_command([*command, "--protocol", "noop,chain,twins", "--remedies", "plain,assets", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [cell["key"] for cell in found["cells"]] == [
        f"{protocol}-{remedy}" for protocol in ("noop", "chain", "twins") for remedy in ("plain", "assets")
    ]
    chains = [cell for cell in found["cells"] if cell["protocol"] != "noop"]  # 'world' needs something to do
    assert all(mark["right"]["mean"] == 1 for cell in chains for mark in cell["marks"])
    assert "Two look-alike characters" in (tmp_path / "d" / "drift.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--generator", "solid"], "--image"),
        (["--remedies", "kep"], "kep"),
        (["--protocol", "loop"], "loop"),
        (["--steps", "0"], "--steps"),
        (["--chains-file", "none.jsonl"], "none.jsonl"),
    ],
)
def test_bad_options_are_refused(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["bench", "drift", "--out", str(tmp_path / "d"), *options]) == 2
    assert said in capsys.readouterr().err


def test_twins_are_two_of_three_things_in_every_chain() -> None:
    from interleave_mini.bench.chains import MiniChains

    for chain in MiniChains().chains("twins", 60, 3, seed=0):
        assert len(chain.links) == 3
