"""Every request that a refusal or the studio offers is one that the planner answers with a fitting plan."""

from __future__ import annotations

import asyncio

import pytest

from interleave.agents.loading import planner_from
from interleave.agents.planner import plan_for
from interleave.agents.prompts import load_pack
from interleave.backends.registry import load_agent
from interleave.errors import InputError
from interleave.types import Request
from interleave_mini.language.vocabulary import language
from interleave_mini.requests import EXAMPLES, accept_request, nearest_requests, offers_with
from interleave_mini.world.kinds import NOUNS

pytest.importorskip("onnxruntime")
THINGS = list(NOUNS)
PAIRS = [[noun, THINGS[(place * 7 + 1) % len(THINGS)]] for place, noun in enumerate(THINGS)]
ABOUT_THINGS = [offer for things in (*([noun] for noun in THINGS), *PAIRS) for offer in offers_with(things)]
FIXED = [
    text for each in language().examples for text in nearest_requests(each.text) if text not in ABOUT_THINGS
]
ALL = list(dict.fromkeys([*EXAMPLES, *FIXED, *ABOUT_THINGS]))


def problems(texts: list[str]) -> dict[str, str]:
    """Return the offered requests that are refused, asked about or noted, with the reason."""
    planner = planner_from(load_agent("mini", "planner"), load_pack("mini"), max_steps=50).agent

    async def problem(text: str) -> str:
        try:
            request = accept_request(Request.of(text), {})
            return " ".join((await plan_for(planner, request)).notes)
        except InputError as error:
            return str(error)

    async def found() -> list[str]:
        return await asyncio.gather(*map(problem, texts))

    return {text: said for text, said in zip(texts, asyncio.run(found()), strict=True) if said}


def test_a_sample_of_all_that_is_offered_works() -> None:
    assert len(ALL) > 250
    assert problems([*EXAMPLES, *ALL[:: len(ALL) // 12]]) == {}


@pytest.mark.slow
def test_all_that_is_offered_works() -> None:
    assert problems(ALL) == {}
