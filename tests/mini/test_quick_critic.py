"""The probability before the reasoning is that of the same token in the whole reply."""

from __future__ import annotations

import asyncio

import pytest

from interleave import load_vlm
from interleave.agents.critic import VlmCritic, critic_input, critic_messages
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import Message, Sampling
from interleave.types import Text
from interleave_mini import WEIGHTS
from interleave_mini.world.drawing import draw
from interleave_mini.world.scene import Scene, Thing

PACK = load_pack("mini")
BEFORE, RIGHT, WRONG = (
    draw(Scene.of("meadow", {4: Thing("cat", colour)})) for colour in ("orange", "blue", "red")
)


@pytest.mark.parametrize("spec", ["mini", f"transformers:{WEIGHTS / 'critic'}?device=cpu"])
def test_an_image_is_accepted_at_once_if_the_reasoning_would_begin_so(spec: str) -> None:
    vlm = load_vlm(spec, "critic")
    critic = VlmCritic(vlm, PACK, quick=0.9)
    right, wrong = (
        critic_input("Paint the orange cat blue.", "Paint the orange cat blue.", (BEFORE,), after)
        for after in (RIGHT, WRONG)
    )
    messages, sampling = critic_messages(right, PACK), Sampling(token_probabilities=True)
    reply = asyncio.run(vlm.complete(messages, sampling))
    begun = Message("assistant", (Text("<think>"),))
    rest = asyncio.run(vlm.complete((*messages, begun), sampling))
    assert f"<think>{rest.text}" == reply.text
    probability = asyncio.run(critic.quick_probability(right))
    assert probability == pytest.approx(rest.tokens[0].probability, abs=1e-5)
    assert probability == pytest.approx(reply.tokens[1].probability, abs=1e-5)
    assert asyncio.run(critic.judge(right)).reasoning == "Accepted without reasoning."
    assert asyncio.run(critic.quick_probability(wrong)) == 0
    verdict = asyncio.run(critic.judge(wrong))
    assert not verdict.accepted and verdict.refined_prompt


def test_replies_that_are_begun_and_others_are_answered_together() -> None:
    vlm = load_vlm("mini", "critic")
    messages = critic_messages(critic_input("A cat.", "A cat.", (), WRONG), PACK)
    begun = (*messages, Message("assistant", (Text("<think>"),)))

    async def together() -> list[str]:
        asked = (vlm.complete(each, Sampling(max_tokens=3)) for each in (messages, begun, messages, begun))
        return [reply.text for reply in await asyncio.gather(*asked)]

    first, second, *others = asyncio.run(together())
    assert others == [first, second]
    assert f"<think>{second}".startswith(first)
