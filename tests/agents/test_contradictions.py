"""A refusal whose reasoning contrasts a thing with itself is unreadable; a named difference is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from PIL import Image

from interleave.agents.critic import VlmCritic, critic_input
from interleave.agents.prompts import load_pack
from interleave.agents.replies import contradiction_in, parse_verdict
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.errors import ReplyError
from interleave.types import Outcome

CONTRADICTIONS = [
    "There is a blue butterfly instead of a blue butterfly",
    "Wrong. In the middle, there is a blue butterfly instead of the Blue  butterfly.",
    "the image shows An old man rather than the old man.",
    "The ball is red instead of red, so the step failed.",
    "On the left there are two ducks in place of two ducks but that is wrong",
    "A cat instead of a cat.",
    "The ball is on the left instead of on the left",
    "The background is the beach, not the beach.",
]
DIFFERENCES = [
    "there is a small blue ball instead of a blue ball",
    "there is a blue ball instead of a small blue ball",
    "a cat and a dog instead of a dog",
    "a dog with a red hat instead of a red hat",
    "it is an image of a dog instead of a dog",
    "there is a red ball instead of a red ball and a cube",
    "there is a red ball instead of a red ball, a cube and a cone",
    "there is a dog instead of a dog on the left",
    "there are three balls instead of balls",
    "the dog is beside the house instead of in the house",
    "The ball is red, not red enough",
    "Instead of a cat there is a dog. A cat was asked for",
    "it was drawn instead of",
    "instead of instead of",
    "",
]


@pytest.mark.parametrize("reasoning", CONTRADICTIONS)
def test_a_thing_contrasted_with_itself_is_found(reasoning: str) -> None:
    assert contradiction_in(reasoning)
    assert contradiction_in(f"{'The rest of it is fine. ' * 200}\n{reasoning}")


@pytest.mark.parametrize("reasoning", DIFFERENCES)
def test_a_difference_is_no_contradiction(reasoning: str) -> None:
    assert contradiction_in(reasoning) is None


def reply_of(reasoning: str, accepted: bool) -> str:
    answer = {"previous_step_success": accepted, "refine_prompt": "" if accepted else "a blue butterfly"}
    return f"<think>{reasoning}</think><answer>{json.dumps(answer)}</answer>"


def test_only_a_refusal_that_contradicts_itself_is_unreadable() -> None:
    with pytest.raises(ReplyError, match=r"refused for what is right \(blue butterfly instead of blue butt"):
        parse_verdict(reply_of(CONTRADICTIONS[0], accepted=False))
    assert parse_verdict(reply_of(CONTRADICTIONS[0], accepted=True)).accepted
    assert parse_verdict(reply_of(DIFFERENCES[0], accepted=False)).refined_prompt == "a blue butterfly"


class Speaker:
    """A model that says one thing after another, and then the last of them again."""

    capabilities = VlmCapabilities()

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.heard: list[str] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.heard.append(messages[-1].text)
        return Reply(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])


def test_the_critic_is_asked_again_and_told_why() -> None:
    seen = critic_input("a butterfly", "a butterfly", (), Image.new("RGB", (8, 8)))
    wrong, right = reply_of(CONTRADICTIONS[0], accepted=False), reply_of("It is right.", accepted=True)
    speaker = Speaker(wrong, right)
    assert asyncio.run(VlmCritic(speaker, load_pack("default")).judge(seen)).accepted
    assert "refused for what is right" in speaker.heard[1]
    stubborn = asyncio.run(VlmCritic(Speaker(wrong), load_pack("default")).judge(seen))
    assert stubborn.outcome is Outcome.UNREADABLE
