"""Plan, draw, judge, redraw: the whole algorithm, on one page.

A planner writes the whole plan. A frozen generator draws each step from the previous image. A critic sees
the images before and after. If it rejects the new one, the step is redrawn with the critic's prompt, always
from the same sources. Steps are drawn in order, unless the plan declares them independent.
Limits, retries and the journal wrap the protocols used here. Progress reads the events. A person's decision
about a step is in its take.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from interleave.agents.critic import Critic, critic_input
from interleave.agents.planner import Planner, chapters
from interleave.backends.protocols import ImageGenerator, ImageRequest
from interleave.config.run_config import Rules
from interleave.events import Attempt, Drawn, Event, Judged, StepFinished
from interleave.scheduler import MayBegin, as_needed, in_line
from interleave.sources import SourceImages, images_of
from interleave.types import Outcome, PlanStep, Request, Slot, Verdict

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Take:
    """How to draw a step: as planned, or as a person decided."""

    step: PlanStep
    seed: int
    chosen: Attempt | None = None
    """Attempt to show without drawing."""
    by_hand: bool = False
    """Whether a person chose the attempt."""
    number: Callable[[int, ImageRequest], int] = lambda turn, _: turn
    """Function that returns the number of an attempt within its step, from its turn in this take."""
    from_scene: bool = False
    """Whether to draw the step from the description of its whole scene."""
    most_sources: int | None = None
    """Maximum sources of the step's generator, if it is not the run's."""


async def interleave(
    request: Request,
    *,
    planner: Planner,
    generator: ImageGenerator,
    critic: Critic,
    rules: Rules,
    take_of: Callable[[PlanStep], Take] | None = None,
    may_begin: MayBegin = lambda needed: True,
) -> AsyncGenerator[Event]:
    """Answer a request step by step and yield an event for everything that happens.

    Independent steps are drawn concurrently. Steps that `may_begin` refuses are skipped.
    """
    images = images_of(request, rules, generator.capabilities)

    def draw(planned: PlanStep) -> AsyncGenerator[Event]:
        take = take_of(planned) if take_of else Take(planned, rules.seed)
        return draw_step(take, images, generator=generator, critic=critic, rules=rules)

    async with aclosing(chapters(planner, request, images)) as plans:
        async for planned in plans:  # one, unless the plan is written in chapters
            images.check_plan(planned.plan)
            yield planned
            needs = images.needs_of(planned.plan)
            order = in_line(needs) if rules.in_line else needs
            async with aclosing(as_needed(planned.new_steps, order, draw, may_begin)) as events:
                async for event in events:
                    yield event
            if not may_begin(frozenset()):
                return


async def draw_step(
    take: Take, images: SourceImages[Image], *, generator: ImageGenerator, critic: Critic, rules: Rules
) -> AsyncGenerator[Event]:
    """Draw one step until the critic accepts it, and add the image to show to `images`."""
    step, best = take.step, take.chosen
    if step.prompt is None:
        yield StepFinished(step, None)
        return
    start = images.start_of(step, most=take.most_sources, from_scene=take.from_scene)
    prompt = start.prompt
    for turn in range(1, rules.max_attempts + 1) if take.chosen is None else ():
        seed = attempt_seed(take.seed, Slot(step.number, turn))
        asked = ImageRequest(
            prompt, seed, start.sources, changes_last=bool(start.before), lettered=bool(step.lettering)
        )
        slot = Slot(step.number, take.number(turn, asked))
        image = await generator.generate(replace(asked, slot=slot))
        yield Drawn(slot, prompt, seed, image)
        verdict = await critic.judge(critic_input(start.prompt, prompt, start.before, image, slot))
        yield Judged(slot, verdict)
        best = rules.better_of(best, Attempt(slot.attempt, prompt, seed, image, verdict))
        if verdict.accepted:
            break
        prompt = next_prompt(start.prompt, prompt, verdict)
    if best is not None:
        images.add(step.number, best.image)
        yield StepFinished(step, best, take.by_hand, start.before, start.references)


def attempt_seed(run_seed: int, slot: Slot) -> int:
    """Return the seed of an attempt: attempts differ, reruns are identical."""
    return derived_seed(run_seed, slot.step, slot.attempt)


def derived_seed(seed: int, step: int, purpose: object) -> int:
    """Return another seed for a step, the same for the same purpose."""
    digest = hashlib.sha256(f"{seed}/{step}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1  # 31 bits: every backend accepts such a seed


def next_prompt(planned: str, prompt: str, verdict: Verdict) -> str:
    """Return the critic's prompt, else the planned one; after an unreadable verdict, the same prompt."""
    return prompt if verdict.outcome is Outcome.UNREADABLE else verdict.refined_prompt or planned
