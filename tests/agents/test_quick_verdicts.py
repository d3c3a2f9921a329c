"""`?quick` accepts an image before the critic has reasoned; any other image is judged with reasoning."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

import interleave
from interleave.agents.critic import VlmCritic, critic_input
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import Message, Reply, Sampling, Token, VlmCapabilities
from interleave.backends.registry import check_agent
from interleave.errors import ConfigurationError
from interleave.runs.record import read_record
from interleave.types import Plan, PlanStep, Slot, Text, Verdict

PACK = load_pack("default")
SEEN = critic_input("a frog", "a frog", (), Image.new("RGB", (8, 8)), Slot(1, 1))
TEXT = (
    '<think>A toad.</think><answer>{"previous_step_success": false, "refine_prompt": "a green frog"}</answer>'
)
REASONED = Reply(TEXT)


def next_token(text: str, probability: float) -> str:
    return json.dumps({"text": text, "tokens": [[text, probability]], "finish_reason": "length"})


def script(folder: Path, *lines: str) -> str:
    path = folder / "critic.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return f"scripted:{path}"


class Speaker:
    """A model that gives one reply after another, and keeps what it was asked."""

    def __init__(self, *replies: Reply, **capabilities: bool) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[Sequence[Message], Sampling]] = []
        able = {"token_probabilities": True, "continues_replies": True} | capabilities
        self.capabilities = VlmCapabilities(**able)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.asked.append((messages, sampling))
        return self.replies.pop(0)


def judged(quick: float, *replies: Reply, **capabilities: bool) -> Verdict:
    return asyncio.run(VlmCritic(Speaker(*replies, **capabilities), PACK, quick=quick).judge(SEEN))


@pytest.mark.parametrize(
    ("token", "probability", "quick", "at_once"),
    [
        (" true", 0.97, 0.95, True),
        ("True", 0.95, 0.95, True),
        (" true", 0.9, 0.95, False),
        (" false", 0.97, 0.95, False),  # it gives 0.97 to "wrong"
        ("", 1.0, 0.95, False),
        ("tru", 0.99, 0.95, True),  # the beginning of the word
        ("truly", 0.99, 0.95, False),
    ],
)
def test_only_an_image_that_is_surely_right_is_accepted_at_once(
    token: str, probability: float, quick: float, at_once: bool
) -> None:
    verdict = judged(quick, Reply(token, "length", tokens=(Token(token, probability),)), REASONED)
    assert verdict.accepted is at_once
    if at_once:
        assert (verdict.reasoning, verdict.confidence) == ("Accepted without reasoning.", probability)
    else:
        assert (verdict.reasoning, verdict.refined_prompt) == ("A toad.", "a green frog")


def test_the_reply_is_begun_where_the_judgement_stands() -> None:
    speaker = Speaker(Reply(" true", "length"))
    assert asyncio.run(VlmCritic(speaker, PACK, quick=0.9).quick_probability(SEEN)) == 0  # it gives none
    [(messages, sampling)] = speaker.asked
    assert messages[-1] == Message("assistant", (Text('<think></think><answer>{"previous_step_success":'),))
    assert (sampling.max_tokens, sampling.token_probabilities, sampling.slot) == (1, True, SEEN.slot)


def test_models_that_cannot_do_it_and_wrong_probabilities_are_refused() -> None:
    for lacking in ("token_probabilities", "continues_replies"):
        with pytest.raises(
            ConfigurationError, match=r"\?quick=0.9 of the critic needs a model that continues"
        ):
            judged(0.9, **{lacking: False})
    with pytest.raises(ConfigurationError, match=r"'quick'.*0\.5"):
        check_agent("scripted?quick=0.4", "critic")
    with pytest.raises(ConfigurationError, match="has no option 'quick'"):
        check_agent("none?quick=0.9", "critic")


def test_a_run_with_quick_verdicts_can_be_resumed_without_a_call(tmp_path: Path) -> None:
    lines = (next_token(" false", 0.9), json.dumps({"text": TEXT}), next_token(" true", 0.99))
    result = interleave.generate(
        "a frog in one step",
        profile="dry-run",
        plan=Plan(steps=(PlanStep(number=1, prompt="a frog"),)),
        critic=f"{script(tmp_path, *lines)}?quick=0.95",
        out=tmp_path / "run",
    )
    record = read_record(result.folder)
    first, second = (attempt.verdict for attempt in record.steps[0].attempts)
    assert first is not None and second is not None
    assert (first.accepted, first.refined_prompt) == (False, "a green frog")
    assert (second.accepted, second.confidence) == (True, 0.99)
    assert result.calls.critic == 3
    script(tmp_path)  # a further call would find no line
    assert interleave.resume(result.folder).calls == result.calls
