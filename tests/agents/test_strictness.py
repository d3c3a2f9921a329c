"""`?strict` decides by the probability that the critic gives "this image is right", not by its word."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image

import interleave
from interleave.agents.critic import VlmCritic, critic_input
from interleave.agents.prompts import load_pack
from interleave.backends.registry import check_agent, load_agent, load_vlm
from interleave.errors import BackendError, ConfigurationError
from interleave.runs.record import read_record
from interleave.types import Outcome, Plan, PlanStep, Slot, Verdict

PACK = load_pack("default")
SEEN = critic_input("a frog", "a frog", (), Image.new("RGB", (8, 8)), Slot(1, 1))


def line(said: bool, probability: float, refined: str = "") -> str:
    """A line of a script: the critic says so, and its token has this probability."""
    pieces = ['{"success": ', str(said).lower(), f', "refine_prompt": {json.dumps(refined)}}}']
    tokens = [(piece, probability if place == 1 else 1.0) for place, piece in enumerate(pieces)]
    return json.dumps({"text": "".join(pieces), "tokens": tokens})


def judged(folder: Path, strict: float | None, *lines: str) -> Verdict:
    script = folder / "critic.jsonl"
    script.write_text("\n".join(lines), "utf-8")
    vlm = load_vlm(f"scripted:{script}", "critic")
    return asyncio.run(VlmCritic(vlm, PACK, strict=strict).judge(SEEN))


@pytest.mark.parametrize(
    ("said", "probability", "strict", "accepted"),
    [
        (True, 0.8, None, True),
        (True, 0.8, 0.8, True),
        (True, 0.8, 0.81, False),
        (False, 0.6, None, False),  # it gives 0.4 to "right"
        (False, 0.6, 0.41, False),
        (False, 0.6, 0.4, True),
        (False, 1.0, 0.0, True),
    ],
)
def test_the_probability_decides(
    said: bool, probability: float, strict: float | None, accepted: bool, tmp_path: Path
) -> None:
    verdict = judged(tmp_path, strict, line(said, probability, "" if said else "a green frog"))
    assert verdict.accepted is accepted
    assert verdict.confidence == pytest.approx(probability if said else 1 - probability)
    assert verdict.refined_prompt == ("a green frog" if not accepted and not said else None)


def test_a_prompt_beside_an_acceptance_is_used_when_strictness_refuses(tmp_path: Path) -> None:
    assert judged(tmp_path, 0.9, line(True, 0.7, "a greener frog")).refined_prompt == "a greener frog"
    assert judged(tmp_path, 0.5, line(True, 0.7, "a greener frog")).refined_prompt is None


def test_a_critic_without_token_probabilities_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\?strict=0.5 of the critic needs token probabilities"):
        judged(tmp_path, 0.5, '{"text": "yes"}')
    with pytest.raises(ConfigurationError, match="token probabilities"):
        interleave.generate(
            "a frog in two steps", profile="dry-run", critic="scripted?strict=0.5", out=tmp_path / "run"
        )


def test_a_reply_without_the_promised_probabilities_is_an_error(tmp_path: Path) -> None:
    bare, last = '{"text": "{\\"success\\": true}"}', line(True, 1.0)
    with pytest.raises(BackendError, match="no token probabilities, which"):
        judged(tmp_path, 0.5, bare, last)


def test_only_a_critic_that_is_a_model_takes_the_option() -> None:
    check_agent("scripted?strict=0.5", "critic")
    for spec, role in (("scripted?strict=0.5", "planner"), ("none?strict=0.5", "critic")):
        with pytest.raises(ConfigurationError, match="has no option 'strict'"):
            load_agent(spec, role)
    with pytest.raises(ConfigurationError, match=r"'strict'.*at most 1"):
        check_agent("scripted?strict=5", "critic")


def test_a_run_is_judged_strictly_and_its_spec_says_so(tmp_path: Path) -> None:
    script = tmp_path / "critic.jsonl"
    script.write_text("\n".join([line(True, 0.7), line(True, 0.95)]), "utf-8")
    result = interleave.generate(
        "a frog in one step",
        profile="dry-run",
        plan=Plan(steps=(PlanStep(number=1, prompt="a frog"),)),
        critic=f"scripted:{script}?strict=0.9",
        out=tmp_path / "run",
    )
    record = read_record(result.folder)
    first, second = record.steps[0].attempts
    assert first.verdict is not None and first.verdict.outcome is Outcome.REJECTED
    assert first.prompt == second.prompt == "a frog"
    assert record.steps[0].accepted and record.steps[0].shown == 2
    assert "strict=0.9" in record.config.critic.identity
