"""Which attempt of a step counts is a policy with a name, that a run records and keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pytest

import interleave
from interleave.config.profiles import load_profile
from interleave.config.run_config import POLICIES, RunConfig, differences, policy_named
from interleave.errors import ConfigurationError, RunError
from interleave.runs.folder import comparable
from interleave.runs.record import read_record
from interleave.types import Outcome, Plan, PlanStep, Verdict


@dataclass(frozen=True)
class Judged:
    number: int
    verdict: Verdict | None


def attempts(*verdicts: tuple[bool, float | None] | None) -> list[Judged]:
    outcomes = {True: Outcome.ACCEPTED, False: Outcome.REJECTED}
    return [
        Judged(number, each and Verdict(outcome=outcomes[each[0]], confidence=each[1]))
        for number, each in enumerate(verdicts, start=1)
    ]


REFUSED = [(False, 0.2), (False, 0.4), (False, 0.3)]
ENDS_ACCEPTED = [(False, 0.45), (False, 0.1), (True, 0.5)]
CLEARLY_ACCEPTED = [(False, 0.45), (True, 0.9)]
WITHOUT_CONFIDENCE = [(False, None), (True, None)]


@pytest.mark.parametrize(
    ("policy", "verdicts", "shown"),
    [
        ("best", REFUSED, 2),
        ("best", ENDS_ACCEPTED, 3),
        ("best", [(False, 0.4), None], 1),
        ("best", [(False, None), (False, None)], 2),
        ("first-unless-better", REFUSED, 1),
        ("first-unless-better", ENDS_ACCEPTED, 1),
        ("first-unless-better?margin=0.05", ENDS_ACCEPTED, 3),
        ("first-unless-better", CLEARLY_ACCEPTED, 2),
        ("first-unless-better?margin=0.5", CLEARLY_ACCEPTED, 1),
        ("first-unless-better", WITHOUT_CONFIDENCE, 2),
        ("last", REFUSED, 3),
        ("last", [(True, 0.9), None], 2),
    ],
)
def test_the_attempt_that_counts(
    policy: str, verdicts: list[tuple[bool, float | None] | None], shown: int
) -> None:
    assert reduce(policy_named(policy), attempts(*verdicts)).number == shown


def test_every_policy_takes_the_only_attempt() -> None:
    only = attempts((False, 0.1))[0]
    assert all(policy_named(name)(None, only) is only for name in POLICIES)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("first", "no policy 'first'"),
        ("best?margin=0.2", "'best' has no option 'margin'"),
        ("first-unless-better?margin=2", "'margin' must be a number from 0 to 1, not '2'"),
        ("first-unless-better?margin=nan", "'margin' must be a number from 0 to 1, not 'nan'"),
    ],
)
def test_an_unknown_policy_is_refused(name: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace("?", r"\?")):
        interleave.generate("a frog in 1 step", profile="dry-run", choose=name, out=tmp_path / "run")


def line(said: bool, probability: float) -> str:
    pieces = ['{"success": ', str(said).lower(), ', "refine_prompt": "a green frog"}']
    tokens = [(piece, probability if place == 1 else 1.0) for place, piece in enumerate(pieces)]
    return json.dumps({"text": "".join(pieces), "tokens": tokens})


def run(folder: Path, choose: str | None, **options: object) -> RunConfig:
    """A step that is refused with 0.48, refused with 0.3 and accepted with 0.55."""
    script = folder.parent / "critic.jsonl"
    script.write_text("\n".join([line(False, 0.52), line(False, 0.7), line(True, 0.55)]), "utf-8")
    result = interleave.generate(
        "a frog",
        profile="dry-run",
        plan=Plan(steps=(PlanStep(number=1, prompt="a frog"),)),
        critic=f"scripted:{script}",
        choose=choose,
        out=folder,
        **options,  # type: ignore[arg-type]
    )
    return read_record(result.folder).config


def test_a_run_keeps_its_policy(tmp_path: Path) -> None:
    folder = tmp_path / "first"
    assert run(folder, "first-unless-better").choose == "first-unless-better"
    step = read_record(folder).steps[0]
    assert (step.shown, step.accepted, step.forced, len(step.attempts)) == (1, False, True, 3)
    before = comparable(folder)
    run(folder, "first-unless-better")  # continued: nothing changes
    assert comparable(folder) == before
    with pytest.raises(RunError, match="choose is 'first-unless-better' there and 'best' here"):
        run(folder, None)
    default = tmp_path / "default"
    assert run(default, None).choose == "best"
    assert read_record(default).steps[0].shown == 3


def test_a_run_cut_short_shows_the_attempt_of_its_policy(tmp_path: Path) -> None:
    for choose, shown in (("best", 1), ("last", 2)):
        run(tmp_path / choose, choose, max_calls=4)
        step = read_record(tmp_path / choose).steps[0]
        assert (len(step.attempts), step.shown, step.forced) == (2, shown, True)


def test_old_runs_and_profiles_without_a_policy_have_the_default(tmp_path: Path) -> None:
    config = run(tmp_path / "run", None)
    old = config.model_dump(mode="json")
    del old["choose"]
    assert differences(RunConfig.model_validate(old), config) == []
    assert load_profile("dry-run").choose == "best"


def test_a_profile_names_the_policy(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    roles = 'planner = "scripted"\ncritic = "scripted"\ngenerator = "solid"\n'
    own.write_text(f'choose = "first-unless-better?margin=0.3"\n{roles}', "utf-8")
    assert load_profile(str(own)).choose == "first-unless-better?margin=0.3"
    own.write_text(f'choose = "finest"\n{roles}', "utf-8")
    with pytest.raises(ConfigurationError, match="no policy 'finest'"):
        load_profile(str(own))
