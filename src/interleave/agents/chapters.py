"""A plan in chapters: each is planned when the one before it is drawn, from a summary and the latest picture.

So a document may have hundreds of steps although its planner can only write a few at a time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from interleave.agents.planner import Planner, request_parts, wanted_steps
from interleave.agents.prompts import PromptPack
from interleave.agents.reask import ask
from interleave.agents.replies import chapter_schema, parse_chapter
from interleave.backends.protocols import Reply, Sampling, VisionLanguageModel
from interleave.errors import ReplyError
from interleave.events import Planned
from interleave.step_counts import chapter_place
from interleave.text import count
from interleave.types import Part, Picture, Plan, Request, Slot, Text

if TYPE_CHECKING:
    from PIL.Image import Image

TOLD_STEPS = 12
"""The number of latest steps that the planner is given in full; earlier ones are in its summary."""
SUMMARY_CHARACTERS = 4000
"""How much of a summary a planner is given: its end, where it is longer."""


class Pictures(Protocol):
    """The pictures so far."""

    @property
    def latest(self) -> tuple[Image, ...]: ...


@dataclass(frozen=True)
class StorySoFar:
    """What the planner of another chapter is given."""

    request: Request
    plan: Plan
    """All chapters so far."""
    pictures: tuple[Image, ...] = ()
    """The latest picture, if there is one."""

    @property
    def chapter(self) -> int:
        """The number of the chapter that is to be planned."""
        return self.plan.chapter.number + 1 if self.plan.chapter else 1


@runtime_checkable
class ChapterPlanner(Protocol):
    """A planner that can write a plan in chapters; `plan` writes the first one."""

    async def plan(self, request: Request) -> Plan: ...
    async def next_chapter(self, story: StorySoFar) -> Plan:
        """The plan with another chapter; where nothing more is to come, the same plan with that said."""
        ...


class VlmChapterPlanner:
    """A planner that prompts a vision-language model for one chapter after another."""

    def __init__(
        self, vlm: VisionLanguageModel, pack: PromptPack, *, max_steps: int, chapter_steps: int
    ) -> None:
        self.vlm = vlm
        self.pack = pack
        self.max_steps = max_steps
        self.chapter_steps = chapter_steps

    async def plan(self, request: Request) -> Plan:
        return await self._chapter(request, None)

    async def next_chapter(self, story: StorySoFar) -> Plan:
        return await self._chapter(story.request, story)

    async def _chapter(self, request: Request, story: StorySoFar | None) -> Plan:
        wanted = wanted_steps(request, self.max_steps)
        planned = len(story.plan.steps) if story else 0
        most = min(self.chapter_steps, (self.max_steps if wanted is None else wanted) - planned)

        def read(reply: Reply) -> Plan:
            plan = parse_chapter(reply, story.plan if story else None)
            _refuse_unusable(plan, story, most=most, wanted=wanted, reply=reply.text)
            is_full = len(plan.steps) >= (self.max_steps if wanted is None else wanted)
            return _ended(plan) if is_full else plan

        slots: dict[str, str | tuple[Part, ...]] = {
            "request": request_parts(request),
            "place": place_of(story, most),
            "story": (*told(story),),
        }
        slot = Slot(attempt=story.chapter if story else 0)
        sampling = Sampling(schema=chapter_schema(most), slot=slot)
        messages = self.pack.messages("planner_chapter", slots)
        return await ask(self.vlm, messages, read, sampling=sampling, pack=self.pack)


def _refuse_unusable(
    plan: Plan, story: StorySoFar | None, *, most: int, wanted: int | None, reply: str
) -> None:
    """Refuse a chapter that is too long, too short for its end, or names steps that are too far back."""
    before = len(story.plan.steps) if story else 0
    new = plan.steps[before:]
    if len(new) > most:
        raise ReplyError(f"the chapter has {len(new)} steps, and at most {most} are allowed", reply=reply)
    if wanted is not None and not plan.goes_on and len(plan.steps) != wanted:
        have = count(len(plan.steps), "step")
        raise ReplyError(
            f"with this chapter the plan has {have}, and the user asked for exactly {wanted}: go on",
            reply=reply,
        )
    nearest = story.plan.chapter.first if story and story.plan.chapter else 1
    for step in new:
        if far := [number for number in (*(step.sources or ()), *(step.needs or ())) if number < nearest]:
            raise ReplyError(
                f"step {step.number} names step {far[0]}: only steps from {nearest} on can be named",
                reply=reply,
            )


async def chapters(planner: Planner, request: Request, pictures: Pictures) -> AsyncGenerator[Planned]:
    """The plan; and where it is written in chapters, the plan again with each further chapter."""
    plan = await planner.plan(request)
    yield Planned(plan)
    while plan.goes_on and isinstance(planner, ChapterPlanner):
        drawn = len(plan.steps)
        plan = await planner.next_chapter(StorySoFar(request, plan, pictures.latest))
        yield Planned(plan, drawn)


def _ended(plan: Plan) -> Plan:
    """The plan with no further chapter."""
    last = plan.chapter.model_copy(update={"is_last": True}) if plan.chapter else None
    return plan.model_copy(update={"chapter": last})


def place_of(story: StorySoFar | None, most: int) -> str:
    """Which chapter is to be planned, in words."""
    if story is None:
        return chapter_place(1, 1, most)
    return chapter_place(story.chapter, story.plan.steps[-1].number + 1, most)


def told(story: StorySoFar | None) -> Iterator[Part]:
    """What has happened so far, for the planner: the summary, the last steps, the latest picture."""
    if story is None:
        yield Text("Nothing has been planned yet: this is the beginning.")
        return
    summary = story.plan.chapter.summary if story.plan.chapter else ""
    yield Text(f"What has happened so far: {summary[-SUMMARY_CHARACTERS:] or 'see the last steps.'}")
    last = story.plan.steps[-TOLD_STEPS:]
    yield Text(
        "\nThe last steps:\n" + "\n".join(f"{step.number}. {step.text or step.prompt}" for step in last)
    )
    for asset in story.plan.assets:
        yield Text(f"\nAlways the same: {asset.name}, {asset.description}")
    if story.pictures:
        yield Text("\nThe latest picture: ")
        yield Picture(story.pictures[-1])
