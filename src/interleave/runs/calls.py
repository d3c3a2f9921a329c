"""Model calls of a run: each result is journalled once, and a call whose result is there is never made again.

These wrappers stand between the pipeline and its backends. Going through them from outside in, a call is
answered from the journal if it can be; else retried by the one policy; else counted against the limits and
announced; then made, and its result synced to disk before the pipeline goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from interleave.agents.critic import Critic, CriticInput
from interleave.agents.planner import Planner
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
from interleave.backends.retries import IMAGE_DEADLINE_SECONDS, VLM_DEADLINE_SECONDS
from interleave.errors import BackendError, RunError
from interleave.pictures import as_rgb, pixel_digest, too_large
from interleave.runs.journal import (
    Called,
    CallFailed,
    Drawn,
    Ended,
    Entry,
    Journal,
    Judged,
    Planned,
    Replied,
    Role,
)
from interleave.runs.limits import Meter
from interleave.runs.models import Models
from interleave.runs.store import MissingPicture, PictureStore
from interleave.text import storable
from interleave.types import Picture, Plan, Request, Slot, Verdict

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")


@dataclass
class Replay:
    """The results that a journal already has, by role and number of the call."""

    replies: dict[tuple[str, int], Replied] = field(default_factory=dict)
    drawings: dict[int, Drawn] = field(default_factory=dict)
    plan: Plan | None = None
    verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    spent_plans: int = 0
    """Calls of the planner that ended in an unreadable plan: they are not answered from the journal."""

    redraw: bool = False
    """Whether a missing picture may be drawn again, and what followed from it asked again."""

    def answers(self, kept: Replied | Drawn, fingerprint: str) -> bool:
        """Whether a result in the journal answers the question that is asked now."""
        if kept.fingerprint == fingerprint:
            return True
        if self.redraw:
            return False
        raise RunError(
            f"call {kept.call} of the {kept.role} in the journal answered another question than the one this "
            "version asks: continue with the version that started the run, or start again in a new folder"
        )

    @classmethod
    def of(cls, entries: Iterable[Entry], *, redraw: bool = False) -> Replay:
        replay = cls(redraw=redraw)
        for entry in entries:
            match entry:
                case Replied():
                    replay.replies[entry.role, entry.call] = entry
                case Drawn():
                    replay.drawings[entry.call] = entry
                case Planned():
                    replay.plan = entry.plan
                case Judged():
                    replay.verdicts[entry.step, entry.attempt] = entry.verdict
                case Ended(unreadable_plan=True):
                    replay.spent_plans = max(
                        (call for role, call in replay.replies if role == "planner"), default=0
                    )
        return replay


@dataclass
class CallDesk:
    """What every call of a run goes through."""

    journal: Journal
    store: PictureStore
    meter: Meter
    models: Models
    replay: Replay

    async def make(
        self,
        role: Role,
        slot: Slot,
        call: Callable[[], Awaitable[T]],
        *,
        price: float | None,
        deadline: float,
    ) -> tuple[T, float]:
        """Make a call that the journal cannot answer; returns its result and how long it took."""

        async def once() -> T:
            return await self.meter.through(announced, price=price)

        async def announced() -> T:
            place = {"role": role, "call": slot.call, "step": slot.step, "attempt": slot.attempt}
            self.journal.append(Called.model_validate(place))
            try:
                return await call()
            except BackendError as error:
                self.journal.append(
                    CallFailed.model_validate(place | {"error": str(error), "transient": error.transient})
                )
                raise

        async with self.models.gates[role]:  # waiting for a turn does not count against the deadline
            started = time.monotonic()
            result = await self.models.retries.call(f"the {role}", once, deadline=deadline)
            return result, round(time.monotonic() - started, 3)

    async def keep(self, result: Replied | Drawn) -> None:
        """Journal what a call brought; it is on disk when this returns."""
        self.journal.append(result)
        await self.journal.sync(self.models.syncing)

    async def store_picture(self, image: Image, metadata: dict[str, str]) -> str:
        """Store a picture without making other runs wait for its compression."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.models.syncing.disk, self.store.put, image, metadata)


class JournalledVlm:
    """A vision-language model whose replies are kept."""

    def __init__(self, role: Role, vlm: VisionLanguageModel, desk: CallDesk) -> None:
        self.role: Role = role
        self.vlm = vlm
        self.desk = desk
        self.calls = desk.replay.spent_plans if role == "planner" else 0

    @property
    def capabilities(self) -> VlmCapabilities:
        return self.vlm.capabilities

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.calls += 1
        slot = replace(sampling.slot, call=self.calls)
        asked = replace(sampling, slot=slot)
        print_of_it = _fingerprint_of_messages(messages)
        kept = self.desk.replay.replies.get((self.role, self.calls))
        if kept is not None and self.desk.replay.answers(kept, print_of_it):
            return _reply_of(kept)
        reply, seconds = await self.desk.make(
            self.role,
            slot,
            lambda: self.vlm.complete(messages, asked),
            price=None,
            deadline=VLM_DEADLINE_SECONDS,
        )
        self.desk.meter.spend(reply.cost)
        await self.desk.keep(
            Replied(
                role=self.role,
                call=slot.call,
                step=slot.step,
                attempt=slot.attempt,
                fingerprint=print_of_it,
                text=storable(reply.text),
                finish_reason=reply.finish_reason,
                usage=reply.usage,
                cost=reply.cost,
                tokens=tuple((storable(token.text), token.probability) for token in reply.tokens),
                seconds=seconds,
            )
        )
        return reply


class JournalledGenerator:
    """An image generator whose pictures are kept."""

    def __init__(self, generator: ImageGenerator, desk: CallDesk, name: str) -> None:
        self.generator = generator
        self.desk = desk
        self.name = name
        self.calls = 0

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.generator.capabilities

    async def generate(self, request: ImageRequest) -> Image:
        self.calls += 1
        asked = replace(request, slot=replace(request.slot, call=self.calls))
        print_of_it = _fingerprint_of_drawing(request)
        kept = self.desk.replay.drawings.get(self.calls)
        if kept is not None and self.desk.replay.answers(kept, print_of_it):
            try:
                return self.desk.store.get(kept.image)
            except MissingPicture:
                if not self.desk.replay.redraw:
                    raise
        price = self.capabilities.price_per_image
        drawn, seconds = await self.desk.make(
            "generator",
            asked.slot,
            lambda: self.generator.generate(asked),
            price=price,
            deadline=IMAGE_DEADLINE_SECONDS,
        )
        self.desk.meter.spend(price)
        image = as_rgb(drawn)
        if too_large(image.size):
            raise BackendError(
                f"the generator drew {image.width}×{image.height} pixels, more than is allowed"
            )
        name = await self.desk.store_picture(image, self._metadata(asked))
        await self.desk.keep(
            Drawn(
                role="generator",
                call=asked.slot.call,
                step=asked.slot.step,
                attempt=asked.slot.attempt,
                fingerprint=print_of_it,
                prompt=request.prompt,
                seed=request.seed,
                image=name,
                cost=price,
                seconds=seconds,
            )
        )
        return image

    def _metadata(self, request: ImageRequest) -> dict[str, str]:
        """What the file says of itself; never a run or a time, so that equal pictures are equal files."""
        return {
            "Software": "interleave",
            "step": str(request.slot.step),
            "attempt": str(request.slot.attempt),
            "prompt": request.prompt,
            "seed": str(request.seed),
            "generator": self.name,
        }


class JournalledPlanner:
    """A planner that is no model: its plan is kept as a fact, and made once."""

    def __init__(self, planner: Planner, desk: CallDesk) -> None:
        self.planner = planner
        self.desk = desk

    async def plan(self, request: Request) -> Plan:
        if self.desk.replay.plan is not None:
            return self.desk.replay.plan
        made, _ = await self.desk.make(
            "planner", Slot(), lambda: self.planner.plan(request), price=None, deadline=VLM_DEADLINE_SECONDS
        )
        return made


class JournalledCritic:
    """A critic that is no model: its verdicts are kept as facts, and each is made once."""

    def __init__(self, critic: Critic, desk: CallDesk) -> None:
        self.critic = critic
        self.desk = desk
        self.calls = 0

    async def judge(self, seen: CriticInput) -> Verdict:
        self.calls += 1
        kept = self.desk.replay.verdicts.get((seen.slot.step, seen.slot.attempt))
        if kept is not None:
            return kept
        slot = replace(seen.slot, call=self.calls)
        made, _ = await self.desk.make(
            "critic", slot, lambda: self.critic.judge(seen), price=None, deadline=VLM_DEADLINE_SECONDS
        )
        return made


def _fingerprint_of_messages(messages: Sequence[Message]) -> str:
    digest = hashlib.sha256()
    for message in messages:
        digest.update(f"\x00{message.role}".encode())
        for part in message.parts:
            said = pixel_digest(part.image) if isinstance(part, Picture) else f"\x01{part.text}"
            digest.update(said.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def _fingerprint_of_drawing(request: ImageRequest) -> str:
    sources = ",".join(pixel_digest(source) for source in request.sources)
    return hashlib.sha256(f"{request.seed}/{sources}/{request.prompt}".encode()).hexdigest()[:32]


def _reply_of(kept: Replied) -> Reply:
    tokens = tuple(Token(text, probability) for text, probability in kept.tokens)
    return Reply(kept.text, kept.finish_reason, dict(kept.usage), kept.cost, tokens)
