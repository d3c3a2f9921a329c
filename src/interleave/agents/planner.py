"""Planners: from a request to a plan, or to one chapter after another.

Each chapter is planned from a summary and the latest image after the previous one is drawn. A document can
have hundreds of steps although its planner writes only a few at a time.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from interleave.agents.prompts import PromptPack, ask
from interleave.agents.replies import chapter_schema, parse_chapter, parse_plan, plan_schema
from interleave.backends.protocols import Message, Reply, Sampling, VisionLanguageModel
from interleave.errors import ConfigurationError, ReplyError
from interleave.events import Planned
from interleave.step_counts import asking_text, chapter_place, named_step_count
from interleave.text import count
from interleave.text import count as counted
from interleave.types import Asked, ImagePart, Part, Plan, Question, Request, Slot, Text

if TYPE_CHECKING:
    from PIL.Image import Image


_FOR_EACH = re.compile(
    r"\b(?:caption|describe|label|annotate|sentence|text|words|instruction)\b[^.?!\n]{0,60}"
    r"\b(?:each|every)\s+(?:picture|image|photo|frame|panel)\b",
    re.IGNORECASE,
)
"""Request for one text per given image."""
_SAYS = (
    "says? said saying asks? asked shouts? whispers? thinks? calls? cries replies answers? reads? reading "
    "sagt ruft fragt flüstert denkt antwortet"
)
_WORDS_IN_IMAGES = re.compile(
    r"\b(?:comics?|mangas?|(?:speech|thought)[ -](?:bubbles?|balloons?)|lettering|labell?ed|labels?"
    r"|sprechblasen?|beschrift\w+)\b"
    rf"|\b(?:{_SAYS.replace(' ', '|')})\b[^\n\"“”„«»‘']{{0,30}}(?<!\w)[\"“„«‘']\S",
    re.IGNORECASE,
)
"""Request for words upon the images, in English or German: a comic, labels, or speech in quotation marks."""


class Planner(Protocol):
    """Writes the whole plan before the first image is drawn."""

    async def plan(self, request: Request) -> Plan: ...


async def plan_for(planner: Planner, request: Request) -> Plan:
    """Return the plan for a request, with the captions and notes of its reading. May raise `Asked`."""
    if request.reading is None or isinstance(planner, GivenPlan):
        return await planner.plan(request)
    try:
        return request.reading.applied_to(await planner.plan(request.as_read))
    except Asked as asked:
        raise Asked(asked.question, request.reading.applied_to(asked.plan)) from None


class GivenPlan:
    """A planner that returns a given plan, from a user or an earlier run."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def plan(self, request: Request) -> Plan:
        return self._plan


class PlanCheck(Protocol):
    """Check of a plan against its request, which a planning model may offer as `plan_check`."""

    samples: int
    """Number of plans to sample and vote on if the first one has a problem. 0: ask the user at once."""

    def mended(self, request: Request, plan: Plan) -> Plan:
        """Return the plan with slips corrected that change nothing of what is asked for."""
        ...

    def problem(self, request: Request, plan: Plan) -> str:
        """Return the problem of a plan as text for the model, empty if there is none."""
        ...

    def question(self, request: Request, plan: Plan) -> Question | None:
        """Return what to ask the user if no plan is without a problem. `None` if this one can be used."""
        ...

    async def doubt(self, request: Request, plan: Plan) -> Question | None:
        """Return what to ask the user if a model finds that a plan without a problem does not fit."""
        ...

    def meaning(self, plan: Plan) -> Hashable:
        """Return a key that is equal for plans with the same images in other words."""
        ...


SAMPLING_TEMPERATURE = 0.7


class _Contradicted(Exception):
    """The plan still has a problem after the model was asked again."""

    def __init__(self, check: PlanCheck, plan: Plan) -> None:
        super().__init__()
        self.check = check
        self.plan = plan


class VlmPlanner:
    """A planner that prompts a vision-language model."""

    def __init__(
        self,
        vlm: VisionLanguageModel,
        pack: PromptPack,
        *,
        max_steps: int = 50,
        check: PlanCheck | None = None,
        scenes: bool = False,
    ) -> None:
        self.vlm = vlm
        self.pack = pack
        self.max_steps = max_steps
        self.check = check
        self.scenes = scenes
        """Whether steps need descriptions of their whole scenes, for anchors and audits."""

    async def plan(self, request: Request) -> Plan:
        """Return the plan. If it has a problem or is doubted, raise `Asked`.

        With a check that samples, first ask again with the problem named, then sample plans and vote.
        """
        plan = await self._without_problem(request)
        if self.check and (question := await self.check.doubt(request, plan)):
            raise Asked(question, plan)
        return plan

    async def _without_problem(self, request: Request) -> Plan:
        wanted = wanted_steps(request, self.max_steps)
        complaints: list[str] = []

        def read(reply: Reply) -> Plan:
            plan = self._parsed(reply, request)
            if self.check and (problem := self.check.problem(request, plan)):
                if complaints or not self.check.samples:
                    raise _Contradicted(self.check, plan)
                complaints.append(problem)
                raise ReplyError(problem, reply=reply.text)
            return _checked(plan, request, wanted, self.max_steps, reply.text)

        more = {
            "with_assets": bool(self.pack.description.assets and (self.scenes or request.assets)),
            "with_lettering": bool(self.pack.description.assets and wants_lettering(request)),
        }
        messages = planner_messages(request, self.pack, **more)
        sampling = Sampling(schema=plan_schema(wanted or self.max_steps, **more))
        try:
            return await ask(self.vlm, messages, read, sampling=sampling, pack=self.pack)
        except _Contradicted as contradicted:
            check, plan = contradicted.check, contradicted.plan
            if plans := await self._sampled(check, request, wanted, messages, sampling):
                return _most_agreed(plans, check)
            if question := check.question(request, plan):
                raise Asked(question, plan) from None
            return _checked(plan, request, wanted, self.max_steps, "")

    def _parsed(self, reply: Reply, request: Request) -> Plan:
        plan = parse_plan(reply)
        return self.check.mended(request, plan) if self.check else plan

    async def _sampled(
        self,
        check: PlanCheck,
        request: Request,
        wanted: int | None,
        messages: Sequence[Message],
        sampling: Sampling,
    ) -> list[Plan]:
        """Sample plans and return those without a problem."""
        samplings = (
            replace(sampling, temperature=SAMPLING_TEMPERATURE, seed=seed)
            for seed in range(1, check.samples + 1)
        )
        replies = await asyncio.gather(*(self.vlm.complete(messages, each) for each in samplings))
        plans = []
        for reply in replies:
            try:
                plan = _checked(self._parsed(reply, request), request, wanted, self.max_steps, reply.text)
            except ReplyError:
                continue
            if not check.problem(request, plan):
                plans.append(plan)
        return plans


def _most_agreed(plans: Sequence[Plan], check: PlanCheck) -> Plan:
    """Return the plan with the most frequent meaning."""
    meanings = [check.meaning(plan) for plan in plans]
    [(common, _)] = Counter(meanings).most_common(1)
    return plans[meanings.index(common)]


def wanted_steps(request: Request, max_steps: int) -> int | None:
    """Return the number of steps that the request names, if any. Raises if it exceeds the limit."""
    wanted = named_steps(request)
    if wanted is not None and wanted > max_steps:
        raise ConfigurationError(
            f"the request asks for {wanted} steps, and the limit is {max_steps}: "
            f"ask for fewer, or raise it with max_steps={wanted}"
        )
    return wanted


def named_steps(request: Request) -> int | None:
    """Return the number of steps that the request asks for, if any."""
    texts = [part.text if isinstance(part, Text) else None for part in request.parts]
    return named_step_count(asking_text(texts))


def wants_lettering(request: Request) -> bool:
    """Return whether a request asks for words in its images: speech, labels, a comic, or quoted text."""
    if request.images and _FOR_EACH.search(request.text):  # for words beside the given images
        return False
    return bool(_WORDS_IN_IMAGES.search(request.text))


def planner_messages(
    request: Request, pack: PromptPack, *, with_assets: bool = False, with_lettering: bool = False
) -> tuple[Message, ...]:
    """Return the planner's messages for inference, data and training. They are built only here.

    With assets, they also ask for the assets and for the whole scene of every step; with lettering, for the
    words that are set upon the images.
    """
    prompt = "planner_interleaved" if request.images else "planner_text"
    messages = pack.messages(prompt, {"request": request_parts(request)})
    asked = {"planner_assets": with_assets, "planner_lettering": with_lettering}
    return _asking_for(messages, pack, [name for name, is_asked in asked.items() if is_asked])


def _asking_for(
    messages: tuple[Message, ...], pack: PromptPack, prompts: Sequence[str]
) -> tuple[Message, ...]:
    """Return a planner's messages with these prompts of its pack added to the rules."""
    if not prompts:
        return messages
    first, *others = messages
    words = Text("\n\n".join(pack.texts[name].strip() for name in prompts))
    parts = (*first.parts, Text("\n\n"), words) if others else (words, Text("\n\n"), *first.parts)
    return (replace(first, parts=parts), *others)


def request_parts(request: Request) -> tuple[Part, ...]:
    """Return the parts of a request for a planner."""
    return (*_one_part_a_line(request.parts), *_asset_parts(request))


def _asset_parts(request: Request) -> Iterator[Part]:
    """Yield the assets of a request: descriptions first, then each image after its name."""
    for asset in sorted(request.assets, key=lambda asset: asset.image is not None):
        said = asset.description.strip().rstrip(".")
        if asset.image is None:
            yield Text(f"\n“{asset.name}” ({asset.kind}) must always look the same: {said}.")
            continue
        words = f" ({asset.kind}): {said}. It" if said else ", which"
        yield Text(f"\nThis is “{asset.name}”{words} must always look like this: ")
        yield ImagePart(asset.image)


def _one_part_a_line(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts of a request with a line break between consecutive texts."""
    pairs = zip((None, *parts), parts, strict=False)
    return tuple(
        Text(f"\n{part.text}") if isinstance(part, Text) and isinstance(before, Text) else part
        for before, part in pairs
    )


def _checked(plan: Plan, request: Request, wanted: int | None, max_steps: int, reply: str) -> Plan:
    count = len(plan.steps)
    if count > max_steps:
        raise ReplyError(f"the plan has {count} steps, and at most {max_steps} are allowed", reply=reply)
    if wanted is not None and count != wanted:
        have = counted(count, "step")
        raise ReplyError(f"the plan has {have}, and the user asked for exactly {wanted}", reply=reply)
    images = _captions_wanted(request) if wanted is None and _is_words(plan) else 0
    if images and count not in (1, images):  # a single text may hold all of them
        have, given = counted(count, "text"), counted(images, "picture")
        raise ReplyError(f"the answer has {have} for {given}, and one for each was asked for", reply=reply)
    if not request.images and plan.steps[0].number != 1:
        raise ReplyError(f"the first step must have number 1, not {plan.steps[0].number}", reply=reply)
    return plan


def _is_words(plan: Plan) -> bool:
    """Return whether a plan has no images, because the user asked for text."""
    return all(step.prompt is None for step in plan.steps)


def _captions_wanted(request: Request) -> int:
    """Return the number of images if the request asks for one text each, else 0."""
    return len(request.images) if _FOR_EACH.search(request.text) else 0


RECENT_STEPS = 12
"""Number of latest steps that the planner receives in full. Earlier ones are in its summary."""
SUMMARY_CHARACTERS = 4000
"""Characters of a summary that a planner receives, from its end."""


class Images(Protocol):
    """Images so far."""

    @property
    def latest(self) -> tuple[Image, ...]: ...


@dataclass(frozen=True)
class StorySoFar:
    """Input for planning another chapter."""

    request: Request
    plan: Plan
    """All chapters so far."""
    images: tuple[Image, ...] = ()
    """Latest image, if there is one."""

    @property
    def chapter(self) -> int:
        """Number of the chapter to plan."""
        return self.plan.chapter.number + 1 if self.plan.chapter else 1


@runtime_checkable
class ChapterPlanner(Protocol):
    """A planner that writes plans in chapters. `plan` writes the first one."""

    async def plan(self, request: Request) -> Plan: ...
    async def next_chapter(self, story: StorySoFar) -> Plan:
        """Return the plan with another chapter, or the same plan marked as complete."""
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
            "story": (*story_parts(story),),
        }
        slot = Slot(attempt=story.chapter if story else 0)
        lettered = bool(self.pack.description.assets and wants_lettering(request))
        sampling = Sampling(schema=chapter_schema(most, with_lettering=lettered), slot=slot)
        messages = self.pack.messages("planner_chapter", slots)
        messages = _asking_for(messages, self.pack, ["planner_lettering"] if lettered else [])
        return await ask(self.vlm, messages, read, sampling=sampling, pack=self.pack)


def _refuse_unusable(
    plan: Plan, story: StorySoFar | None, *, most: int, wanted: int | None, reply: str
) -> None:
    """Refuse a chapter that is too long, ends too early, or names steps that are too far back."""
    before = len(story.plan.steps) if story else 0
    new = plan.steps[before:]
    if len(new) > most:
        raise ReplyError(f"the chapter has {len(new)} steps, and at most {most} are allowed", reply=reply)
    if wanted is not None and not plan.is_unfinished and len(plan.steps) != wanted:
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


async def chapters(planner: Planner, request: Request, images: Images) -> AsyncGenerator[Planned]:
    """Yield the plan and, if it is written in chapters, the plan with each further chapter."""
    plan = await plan_for(planner, request)
    yield Planned(plan)
    while plan.is_unfinished and isinstance(planner, ChapterPlanner):
        drawn = len(plan.steps)
        plan = await planner.next_chapter(StorySoFar(request.as_read, plan, images.latest))
        yield Planned(plan, drawn)


def _ended(plan: Plan) -> Plan:
    """Return the plan marked as complete."""
    last = plan.chapter.model_copy(update={"is_last": True}) if plan.chapter else None
    return plan.model_copy(update={"chapter": last})


def place_of(story: StorySoFar | None, most: int) -> str:
    """Return the text that names the chapter to plan."""
    if story is None:
        return chapter_place(1, 1, most)
    return chapter_place(story.chapter, story.plan.steps[-1].number + 1, most)


def story_parts(story: StorySoFar | None) -> Iterator[Part]:
    """Yield the story so far for the planner: the summary, the last steps, the latest image."""
    if story is None:
        yield Text("Nothing has been planned yet: this is the beginning.")
        return
    summary = story.plan.chapter.summary if story.plan.chapter else ""
    yield Text(f"What has happened so far: {summary[-SUMMARY_CHARACTERS:] or 'see the last steps.'}")
    last = story.plan.steps[-RECENT_STEPS:]
    yield Text(
        "\nThe last steps:\n" + "\n".join(f"{step.number}. {step.text or step.prompt}" for step in last)
    )
    for asset in story.plan.assets:
        yield Text(f"\nAlways the same: {asset.name}, {asset.description}")
    if story.images:
        yield Text("\nThe latest picture: ")
        yield ImagePart(story.images[-1])
