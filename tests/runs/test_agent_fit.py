"""Planners and critics that know the images of some generators alone do not work for others unasked."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from PIL import Image

import interleave
from interleave.cli.main import run
from interleave.errors import ConfigurationError
from interleave.render.markdown import render_markdown
from interleave.runs.resolve import Choices, resolve, unfit_agents
from interleave.types import Plan, PlanStep

Captured = pytest.CaptureFixture[str]
FOREIGN = ["http://127.0.0.1:9", "diffusers:./a-model", "solid?size=64"]


class Postcards:
    capabilities = interleave.GeneratorCapabilities()

    async def generate(self, request: interleave.ImageRequest) -> Image.Image:
        return Image.new("RGB", (32, 32), "teal")


@pytest.mark.parametrize("generator", FOREIGN)
def test_the_miniatures_agents_are_refused_for_another_generator(generator: str, capsys: Captured) -> None:
    command = ["generate", "A rainbow in 2 pictures", "--profile", "mini", "--generator", generator]
    assert run([*command, "--out", "run"]) == 2
    assert not Path("run").exists()
    told = capsys.readouterr().err
    assert (
        "the planner and critic of the profile 'mini' were made for the images of “mini” and “world”" in told
    )
    assert repr(generator) in told


def test_a_misspelled_generator_is_named_before_any_fit_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", "A frog", "--generator", "soldi", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "no image generator named 'soldi'" in said and "Did you mean 'solid'?" in said


def test_the_line_of_the_refusal_works(capsys: Captured) -> None:
    command = ["generate", "A rainbow in 2 pictures", "--profile", "mini", "--generator", "solid?size=64"]
    assert run(command) == 2
    advised = re.search(r"To try the generator: ([^;]+);", capsys.readouterr().err)
    assert advised is not None
    assert run([*command, *shlex.split(advised[1]), "--out", "run"]) == 0
    assert len(interleave.read_record("run").steps) == 2


def test_only_the_role_that_was_not_named_is_refused(capsys: Captured) -> None:
    command = ["generate", "x", "--profile", "mini", "--generator", "solid", "--planner", "scripted"]
    assert run(command) == 2
    told = capsys.readouterr().err
    assert "the critic of the profile 'mini' was made" in told
    assert "To try the generator: --critic none;" in told


def test_a_given_plan_needs_no_planner() -> None:
    plan = Plan(steps=(PlanStep(number=1, prompt="a teal square"),))
    with pytest.raises(ConfigurationError, match=r"^the critic of the profile"):
        resolve(Choices(profile="mini", generator="solid", plan=plan))
    config, _ = resolve(Choices(profile="mini", generator="solid", plan=plan, critic="none"))
    assert unfit_agents(config.asked) == []


def test_a_python_object_is_another_generator_too() -> None:
    with pytest.raises(ConfigurationError, match="not for those of 'Postcards'"):
        interleave.generate("A rainbow in 2 pictures", profile="mini", generator=Postcards())
    made = interleave.generate(
        "A rainbow in 2 pictures", profile="mini", generator=Postcards(), planner="scripted", critic="none"
    )
    assert made.status == "done"


def test_agents_that_are_named_work_and_the_document_says_for_whom_they_were_made(capsys: Captured) -> None:
    request = "How a frog grows up, step by step, in four pictures"
    chosen = [
        "--generator",
        "solid?size=64",
        "--planner",
        "oracle",
        "--critic",
        "oracle",
        "--max-attempts",
        "1",
    ]
    assert run(["generate", request, "--profile", "mini", *chosen, "--out", "run"]) == 0
    note = (
        "The planner “oracle” and critic “oracle” were made for the images of “mini” and “world”; "
        "these come from “solid?size=64”, so the plan and the verdicts may be wrong."
    )
    assert note in capsys.readouterr().err
    assert note in Path("run/document.html").read_text("utf-8")
    assert note.replace("&", "") in render_markdown(interleave.read_record("run"))
    assert run(["generate", request, "--profile", "mini", *chosen, "--out", "run"]) == 0  # continued


def test_a_profile_that_names_all_three_is_taken_at_its_word_and_says_so() -> None:
    Path("mine.toml").write_text('planner = "oracle"\ncritic = "oracle"\ngenerator = "solid"\n')
    config, _ = resolve(Choices(profile="./mine.toml"))
    assert any("were made for the images of" in note for note in config.notes)


def test_the_generators_of_the_miniature_fit() -> None:
    for generator in (None, "world", "mini?steps=1"):
        config, _ = resolve(Choices(profile="mini", generator=generator))
        assert unfit_agents(config.asked) == []
    assert interleave.plan("How a frog grows up, step by step, in four pictures", profile="oracle").steps


PLUGIN = """
from interleave import BackendInfo
from interleave.agents.critic import NoAgent

WAX = BackendInfo("wax_judge:NoAgent", "knows crayons", generators=("crayon",))
"""


def test_the_agents_of_any_package_declare_what_they_know(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path("site")
    (package / "wax_judge-1.0.dist-info").mkdir(parents=True)
    (package / "wax_judge-1.0.dist-info/METADATA").write_text("Name: wax-judge\nVersion: 1.0\n")
    (package / "wax_judge-1.0.dist-info/entry_points.txt").write_text(
        "[interleave.agents]\nwax = wax_judge:WAX\n"
    )
    (package / "wax_judge.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(package.absolute()))
    Path("wax.toml").write_text('planner = "none"\ncritic = "wax"\ngenerator = "solid"\n')
    with pytest.raises(ConfigurationError, match="made for the images of “crayon”, not for those of 'world'"):
        resolve(Choices(profile="./wax.toml", generator="world"))
    config, _ = resolve(Choices(profile="./wax.toml", generator="world", critic="wax"))
    assert unfit_agents(config.asked) == ["critic"]
    sys.modules.pop("wax_judge", None)
