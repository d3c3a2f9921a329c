"""Model calls of a run: each result is journalled, and a call whose result is journalled is not repeated.

These wrappers sit between the pipeline and its backends. A call is answered from the journal if possible.
Otherwise it is counted against the limits, announced in the journal and made, with retries. Its result is
synced to disk before the pipeline continues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from PIL.Image import Image

from interleave.agents.auditor import AUDIT_ATTEMPTS, Auditor, Document
from interleave.agents.critic import Critic, CriticInput
from interleave.agents.documents import (
    DOCUMENT_DEADLINE_SECONDS,
    DocumentPlanner,
    WrittenDocument,
    first_images,
    plan_of,
)
from interleave.agents.loading import auditor_from
from interleave.agents.planner import ChapterPlanner, GivenPlan, Planner, StorySoFar
from interleave.agents.reference_sheets import asset_planner
from interleave.backends.concurrency import CallLimit, Deadline
from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageGenerator,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    Token,
    VisionLanguageModel,
    VlmCapabilities,
)
from interleave.backends.retries import (
    IMAGE_DEADLINE_SECONDS,
    VLM_DEADLINE_SECONDS,
    checked,
    clean_errors,
    is_price,
)
from interleave.config.run_config import NO_DRIFT_CONTROL, DriftControl, RunConfig
from interleave.drift.control import with_drift_control
from interleave.errors import BackendError, ConfigurationError, MissingImage
from interleave.images import as_rgb, remember_digest, too_large, white_canvas
from interleave.runs.folder import ImageStore
from interleave.runs.journal import (
    Called,
    CallFailed,
    Drawn,
    Journal,
    Replied,
    RequestPart,
    Role,
)
from interleave.runs.models import Meter, Models
from interleave.runs.replay import Replay, fingerprint_of_messages, fingerprint_of_request
from interleave.runs.steering import Steering
from interleave.sources import images_of
from interleave.text import count
from interleave.types import Finding, Part, Plan, Request, Slot, Text, Verdict

T = TypeVar("T")


@dataclass
class CallRunner:
    """Makes the model calls of one run: retried, metered and journalled."""

    journal: Journal
    store: ImageStore
    meter: Meter
    models: Models
    replay: Replay

    def planner(self, *, reference_sheets: bool = False) -> Planner:
        """Return the journalled planner; a given plan is journalled as an event and is not a call."""
        if self.replay.released is not None:
            return GivenPlan(self.replay.released)
        return asset_planner(self._planner(), reference_sheets=reference_sheets)

    def _planner(self) -> Planner:
        planner = self.models.planner
        if isinstance(planner.agent, GivenPlan):
            return planner.agent
        if isinstance(planner.agent, DocumentPlanner):
            return JournalledDocument(planner.agent, self)
        if planner.vlm is None:
            return JournalledPlanner(planner.agent, self)
        asked = planner.with_calls_through(lambda vlm: JournalledVlm("planner", vlm, self))
        return ReplayedChapters(asked, self.replay) if isinstance(asked, ChapterPlanner) else asked

    def generator(
        self, name: str, steering: Steering, drift_control: DriftControl = NO_DRIFT_CONTROL
    ) -> ImageGenerator:
        """Return the journalled generator; `name` goes into the metadata of images."""
        return JournalledGenerator(self.models, self, name, steering, drift_control)

    def critic(self) -> Critic:
        """Return the journalled critic."""
        critic = self.models.critic
        if critic.vlm is None:
            return JournalledCritic(critic.agent, self)
        return critic.with_calls_through(lambda vlm: JournalledVlm("critic", vlm, self))

    def auditor(self) -> Auditor:
        """Return the critic as a journalled auditor of the whole document."""
        agent = self.models.critic.agent
        if self.models.critic.vlm is None and isinstance(agent, Auditor):
            return JournalledAuditor(agent, self)
        return auditor_from(self.critic())

    async def run(
        self,
        role: Role,
        slot: Slot,
        call: Callable[[], Awaitable[T]],
        *,
        kind: type[T],
        price: float | None = None,
        deadline: float = VLM_DEADLINE_SECONDS,
        limit: CallLimit | None = None,
    ) -> tuple[T, float]:
        """Make a call that the journal cannot answer; return its result and its duration in seconds."""

        place = {"role": role, "call": slot.call, "step": slot.step, "attempt": slot.attempt}

        async def once() -> T:
            async with self.meter.counted(price):
                self.journal.append(Called.model_validate(place))
                self.journal.write()
                try:
                    with clean_errors(f"the {role}"):
                        return _of_kind(await call(), kind, role)
                except BackendError as error:
                    failure = {"error": str(error), "transient": error.transient}
                    self.journal.append(CallFailed.model_validate(place | failure))
                    raise

        within = Deadline(deadline)
        limit = limit or self.models.limits[role]
        result = await self.models.retries.call(f"the {role}", once, deadline=within, limit=limit, slot=slot)
        return result, round(within.elapsed, 3)

    async def store_reply(self, reply: Replied) -> None:
        """Journal a model's reply and sync it to disk."""
        self.journal.append(reply)
        await self.models.disk.sync(self.journal)

    async def store_image(
        self, drawn: Image, metadata: dict[str, str], line: Callable[[str], Drawn]
    ) -> Image:
        """Store an image, then journal it; return the image as stored once both are on disk."""

        image, name = await self.models.disk.run(lambda: self._stored(drawn, metadata))
        self.journal.append(line(name))
        await self.models.disk.sync(self.journal)
        return image

    async def store_document(
        self, document: WrittenDocument, line: Callable[[tuple[RequestPart, ...]], Replied]
    ) -> Replied:
        """Store the images of a document, then journal it; return its line once everything is on disk."""

        def stored(number: int, part: Part) -> RequestPart:
            if isinstance(part, Text):
                return RequestPart(text=part.text)
            _, name = self._stored(part.image, {"Software": "interleave", "part": str(number)})
            return RequestPart(image=name)

        numbered = list(enumerate(document.parts, start=1))
        parts = await self.models.disk.run(lambda: tuple(stored(*each) for each in numbered))
        reply = line(parts)
        await self.store_reply(reply)
        return reply

    def _stored(self, drawn: Image, metadata: dict[str, str]) -> tuple[Image, str]:
        image = remember_digest(as_rgb(drawn))
        return image, self.store.put(image, metadata)


def _of_kind(result: object, kind: type[T], role: str) -> T:
    """Check the type of a call's result: a custom model may return anything."""
    if isinstance(result, kind):
        return checked(result, f"the {role}")
    raise BackendError(f"the {role} returned a {type(result).__name__}, not a {kind.__name__}")


class JournalledVlm:
    """A vision-language model whose replies are journalled."""

    def __init__(self, role: Role, vlm: VisionLanguageModel, runner: CallRunner) -> None:
        self.role: Role = role
        self.vlm = vlm
        self.runner = runner
        self.turns: Counter[tuple[int, int]] = Counter()
        """Number of calls about each attempt, by step and attempt; (0, 0) for the plan."""
        if role == "planner":
            self.turns[0, 0] = runner.replay.unreadable_plans

    @property
    def capabilities(self) -> VlmCapabilities:
        return self.vlm.capabilities

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        replay, place = self.runner.replay, (sampling.slot.step, sampling.slot.attempt)
        self.turns[place] += 1
        fingerprint = fingerprint_of_messages(messages)
        if self.role == "planner" and sampling.slot.attempt:  # a chapter: its messages depend on images
            stored = replay.reply_to(self.role, sampling.slot, fingerprint)
        else:
            stored = replay.reply(self.role, sampling.slot, self.turns[place])
        if stored is not None and replay.answers(stored, fingerprint):
            return _reply_of(stored)
        slot = replace(sampling.slot, call=replay.number_of(stored, self.role, sampling.slot))
        asked = replace(sampling, slot=slot)
        reply, seconds = await self.runner.run(
            self.role,
            slot,
            lambda: self.vlm.complete(messages, asked),
            kind=Reply,
            deadline=self.capabilities.deadline or VLM_DEADLINE_SECONDS,
        )
        self.runner.meter.spend(reply.cost)
        await self.runner.store_reply(
            Replied(
                role=self.role,
                call=slot.call,
                step=slot.step,
                attempt=slot.attempt,
                fingerprint=fingerprint,
                text=reply.text,
                finish_reason=reply.finish_reason,
                usage=reply.usage,
                cost=reply.cost,
                tokens=tuple((token.text, token.probability) for token in reply.tokens),
                seconds=seconds,
            )
        )
        return reply


NO_WRITING = "The image has no letters, numbers, captions, speech bubbles or other writing in it."


class JournalledGenerator:
    """An image generator whose images are stored and journalled; a step may use another generator."""

    def __init__(
        self, models: Models, runner: CallRunner, name: str, steering: Steering, drift_control: DriftControl
    ) -> None:
        self.models = models
        self.runner = runner
        self.name = name
        self.steering = steering
        self.drift_control = drift_control

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.models.generator.capabilities

    async def generate(self, request: ImageRequest) -> Image:
        replay, slot = self.runner.replay, request.slot
        fingerprint = fingerprint_of_request(request)
        stored = replay.images.get((slot.step, slot.attempt))
        if stored is not None and replay.answers(stored, fingerprint):
            try:
                return remember_digest(self.runner.store.get(stored.image))
            except MissingImage:
                if not replay.redraw:
                    raise
        if slot.attempt == 1 and (given := replay.first_images.get(slot.step)) is not None:
            return await self._given(given, request, fingerprint)
        models, name = self._models_for(slot.step)
        capabilities = models.generator.capabilities
        refuse_sources(slot.step, len(request.sources), capabilities, name)
        asked = replace(
            without_writing(self._lettered(request), capabilities),
            slot=replace(slot, call=replay.number_of(stored, "generator", slot)),
        )
        listed = capabilities.price_per_image
        price = listed if is_price(listed) else None
        drawn, seconds = await self.runner.run(
            "generator",
            asked.slot,
            lambda: with_drift_control(models.generator, self.drift_control).generate(asked),
            kind=Image,
            price=price,
            deadline=capabilities.deadline or IMAGE_DEADLINE_SECONDS,
            limit=models.limits["generator"],
        )
        if too_large(drawn.size):
            raise BackendError(
                f"the generator returned an image of {drawn.width}×{drawn.height} pixels, which is too large"
            )

        def line(name: str) -> Drawn:
            return Drawn(
                role="generator",
                call=asked.slot.call,
                step=asked.slot.step,
                attempt=asked.slot.attempt,
                fingerprint=fingerprint,
                prompt=request.prompt,
                sent=asked.prompt if asked.prompt != request.prompt else None,
                seed=request.seed,
                image=name,
                cost=price,
                seconds=seconds,
            )

        return await self.runner.store_image(drawn, _metadata(asked, name), line)

    def _lettered(self, request: ImageRequest) -> ImageRequest:
        """Return the request with what the document layer says of words upon its image."""
        own = self.steering.layer.of(request.slot.step).lettering
        return request if own is None else replace(request, lettered=bool(own))

    async def _given(self, name: str, request: ImageRequest, fingerprint: str) -> Image:
        """Journal an image of a native system's document as the first attempt of its step."""
        image = await self.models.disk.run(lambda: remember_digest(self.runner.store.get(name)))
        drawn = Drawn(
            role="planner",
            call=1,
            step=request.slot.step,
            attempt=request.slot.attempt,
            fingerprint=fingerprint,
            prompt=request.prompt,
            seed=request.seed,
            image=name,
            seconds=0.0,
        )
        self.runner.journal.append(drawn)
        await self.models.disk.sync(self.runner.journal)
        return image

    def _models_for(self, step: int) -> tuple[Models, str]:
        """Return the models with the generator chosen for a step, and its name."""
        wanted = self.steering.generator_of(step)
        if wanted is None:
            return self.models, self.name
        return self.models.for_generator(wanted), wanted.identity


def without_writing(request: ImageRequest, capabilities: GeneratorCapabilities) -> ImageRequest:
    """Return the request to send: where words are set upon the image, its prompt asks for no writing.

    The critic and the fingerprint have the prompt without this, so that stored images stay valid.
    """
    if not (request.lettered and capabilities.draws_writing):
        return request
    return replace(request, prompt=f"{request.prompt.rstrip()}\n{NO_WRITING}", lettered=False)


def _metadata(request: ImageRequest, generator: str) -> dict[str, str]:
    """Return the text stored in an image file: no run and no time, so that equal images are equal files."""
    return {
        "Software": "interleave",
        "step": str(request.slot.step),
        "attempt": str(request.slot.attempt),
        "prompt": request.prompt,
        "seed": str(request.seed),
        "generator": generator,
    }


def refuse_sources(step: int, have: int, capabilities: GeneratorCapabilities, name: str) -> None:
    """Refuse a step that its chosen generator cannot draw; other steps were checked with the plan."""
    most = capabilities.max_sources
    if have > most or (not have and not capabilities.text_to_image):
        raise ConfigurationError(
            f"step {step} starts from {count(have, 'image') if have else 'no image'}, and "
            f"{name!r} {f'takes {most}' if have else 'only edits'}: redraw the step with another generator"
        )


class JournalledPlanner:
    """A planner without a model behind it: its plan is journalled as an event and computed once."""

    def __init__(self, planner: Planner, runner: CallRunner) -> None:
        self._planner = planner
        self.runner = runner

    async def plan(self, request: Request) -> Plan:
        if self.runner.replay.plan is not None:
            return self.runner.replay.plan
        made, _ = await self.runner.run(
            "planner",
            Slot(),
            lambda: self._planner.plan(request),
            kind=Plan,
        )
        return made

    async def next_chapter(self, story: StorySoFar) -> Plan:
        if (stored := self.runner.replay.chapters.get(story.chapter)) is not None:
            return stored.after(story.plan)
        planner = self._planner
        if not isinstance(planner, ChapterPlanner):
            raise AssertionError("next_chapter was called on a planner without chapters")
        made, _ = await self.runner.run(
            "planner",
            Slot(attempt=story.chapter, call=len(self.runner.replay.chapters) + 2),
            lambda: planner.next_chapter(story),
            kind=Plan,
        )
        return made


class JournalledDocument:
    """A native system whose document is written once; its images are the first attempts of the steps."""

    def __init__(self, planner: DocumentPlanner, runner: CallRunner) -> None:
        self._planner = planner
        self.runner = runner

    async def plan(self, request: Request) -> Plan:
        replay = self.runner.replay
        fingerprint = fingerprint_of_messages((Message("user", request.parts),))
        stored = replay.reply("planner", Slot(), 1)
        if stored is None or not replay.answers(stored, fingerprint):
            stored = await self._write(request, fingerprint, replay.number_of(stored, "planner", Slot()))
        plan = plan_of([part.text for part in stored.document], request, stored.finish_reason)
        replay.first_images = first_images(plan, [part.image for part in stored.document if part.image])
        return plan

    async def _write(self, request: Request, fingerprint: str, number: int) -> Replied:
        document, seconds = await self.runner.run(
            "planner",
            Slot(call=number),
            lambda: self._planner.write(request),
            kind=WrittenDocument,
            deadline=self._planner.model.capabilities.deadline or DOCUMENT_DEADLINE_SECONDS,
        )
        end = document.end
        self.runner.meter.spend(end.cost)
        return await self.runner.store_document(
            document,
            lambda parts: Replied(
                role="planner",
                call=number,
                fingerprint=fingerprint,
                text="",
                document=parts,
                finish_reason=end.finish_reason,
                usage=end.usage,
                cost=end.cost,
                seconds=seconds,
            ),
        )


class ReplayedChapters:
    """A planner that plans each chapter once: later decisions do not change the plan."""

    def __init__(self, planner: ChapterPlanner, replay: Replay) -> None:
        self._planner = planner
        self._replay = replay

    async def plan(self, request: Request) -> Plan:
        return await self._planner.plan(request)

    async def next_chapter(self, story: StorySoFar) -> Plan:
        stored = self._replay.chapters.get(story.chapter)
        return await self._planner.next_chapter(story) if stored is None else stored.after(story.plan)


class JournalledCritic:
    """A critic without a model behind it: each verdict is journalled as an event and computed once."""

    def __init__(self, critic: Critic, runner: CallRunner) -> None:
        self._critic = critic
        self.runner = runner
        self.calls = len(runner.replay.verdicts) + runner.replay.audits

    async def judge(self, seen: CriticInput) -> Verdict:
        stored = self.runner.replay.verdicts.get((seen.slot.step, seen.slot.attempt))
        if stored is not None:
            return stored
        self.calls += 1
        slot = replace(seen.slot, call=self.calls)
        made, _ = await self.runner.run(
            "critic",
            slot,
            lambda: self._critic.judge(seen),
            kind=Verdict,
        )
        return made


class JournalledAuditor:
    """An auditor without a model behind it; the run journals its findings."""

    def __init__(self, auditor: Auditor, runner: CallRunner) -> None:
        self._auditor = auditor
        self.runner = runner

    async def audit(self, document: Document) -> tuple[Finding, ...]:
        number = len(self.runner.replay.verdicts) + document.round
        found, _ = await self.runner.run(
            "critic",
            Slot(document.steps[0].step.number, AUDIT_ATTEMPTS + document.round, number),
            lambda: self._auditor.audit(document),
            kind=tuple,
        )
        return found


def _reply_of(stored: Replied) -> Reply:
    tokens = tuple(Token(text, probability) for text, probability in stored.tokens)
    return Reply(stored.text, stored.finish_reason, dict(stored.usage), stored.cost, tokens)


def refuse_undrawable_steps(
    request: Request, config: RunConfig, models: Models, steering: Steering | None
) -> None:
    """Raise `ConfigurationError` for a step whose generator does not accept the source images of the step.

    The pipeline makes the same check when it reaches a step. This one runs before anything is on disk.
    """
    plan = _plan_of(config, steering)
    if plan is None:
        return
    images = images_of(request, config.rules, models.generator.capabilities)
    images.check_plan(plan)
    left = steering.unfinished() if steering else set()
    for step in plan.steps:
        other = steering.generator_of(step.number) if steering and step.number in left else None
        if steering and other is not None:
            capabilities = models.for_generator(other).generator.capabilities
            from_scene = step.number in steering.from_scene
            start = images.start_of(step, most=capabilities.max_sources, from_scene=from_scene)
            refuse_sources(step.number, len(start.sources), capabilities, other.identity)
        if step.prompt is not None:
            images.add(step.number, white_canvas((1, 1)))


def _plan_of(config: RunConfig, steering: Steering | None) -> Plan | None:
    """Return the plan to draw, if known; reference sheets of assets are added to it as steps."""
    if steering is not None and steering.plan is not None:
        return steering.plan
    return None if config.sheets else config.plan
