"""The agent `none` leaves the planner or the critic out, and documents say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import interleave
from interleave.cli.main import run
from interleave.errors import ConfigurationError


def test_the_generator_alone_draws_one_image_of_the_request(tmp_path: Path) -> None:
    made = interleave.generate(
        "A frog by a pond", planner="none", critic="none", generator="solid?size=64", out=tmp_path / "run"
    )
    record = interleave.read_record(tmp_path / "run")
    assert (made.status, len(record.steps)) == ("done", 1)
    assert record.steps[0].attempts[0].prompt == "A frog by a pond"
    assert record.calls.generator == 1
    assert "which omits this role" in made.document.read_text()


def test_without_a_critic_every_first_image_stands(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--planner", "scripted", "--critic", "none", "--generator", "solid?size=64"]
    assert run(["generate", "A frog in four pictures", *arguments, "--out", "run", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["attempts"] for step in steps] == [1, 1, 1, 1]
    assert run(["resume", "run"]) == 0


@pytest.mark.parametrize("spec", ["none:model", "none?delay=1"])
def test_what_it_does_not_take_is_refused(spec: str) -> None:
    with pytest.raises(ConfigurationError):
        interleave.generate("A frog", planner="scripted", critic=spec, generator="solid?size=64")


def test_a_scorer_cannot_be_left_out() -> None:
    from interleave.backends.registry import load_agent

    with pytest.raises(ConfigurationError, match="only the planner and the critic"):
        load_agent("none", "scorer")
