"""Model calls of a run: each result is journalled once, and a call whose result is there is never made again.

These wrappers stand between the pipeline and its backends. Going through them from outside in, a call is
answered from the journal if it can be; else retried by the one policy; else counted against the limits and
announced; then made, and its result synced to disk before the pipeline goes on.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from PIL.Image import Image

from interleave.agents.critic import Critic, CriticInput
from interleave.agents.planner import Planner
from interleave.backends.checked import checked, clean_errors, is_price
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
from interleave.errors import BackendError
from interleave.pictures import as_rgb, sealed, too_large
from interleave.runs.journal import (
    Called,
    CallFailed,
    Drawn,
    Journal,
    Replied,
    Role,
)
from interleave.runs.limits import Meter
from interleave.runs.models import Models
from interleave.runs.replay import Replay, fingerprint_of_drawing, fingerprint_of_messages
from interleave.runs.store import MissingPicture, PictureStore
from interleave.types import Plan, Request, Slot, Verdict

T = TypeVar("T")


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
        kind: type[T],
        price: float | None,
        deadline: float,
    ) -> tuple[T, float]:
        """Make a call that the journal cannot answer; returns its result and how long it took."""

        async def once() -> T:
            return await self.meter.through(announced, price=price)

        async def announced() -> T:
            place = {"role": role, "call": slot.call, "step": slot.step, "attempt": slot.attempt}
            self.journal.append(Called.model_validate(place))
            self.journal.write()
            try:
                with clean_errors():
                    return _of_kind(await call(), kind, role)
            except BackendError as error:
                self.journal.append(
                    CallFailed.model_validate(place | {"error": str(error), "transient": error.transient})
                )
                raise

        async with self.models.gates[role].turn(
            slot
        ):  # waiting for a turn does not count against the deadline
            started = time.monotonic()
            result = await self.models.retries.call(f"the {role}", once, deadline=deadline)
            return result, round(time.monotonic() - started, 3)

    async def keep(self, reply: Replied) -> None:
        """Journal what a model answered; it is on disk when this returns."""
        self.journal.append(reply)
        await self.models.disk.sync(self.journal)

    async def keep_picture(
        self, drawn: Image, metadata: dict[str, str], line: Callable[[str], Drawn]
    ) -> Image:
        """Store a picture, then journal it; both are on disk when this returns the picture as it is kept."""

        def work() -> tuple[Image, str]:
            image = sealed(as_rgb(drawn))
            return image, self.store.put(image, metadata)

        image, name = await self.models.disk.do(work)
        self.journal.append(line(name))
        await self.models.disk.sync(self.journal)
        return image


def _of_kind(result: object, kind: type[T], role: str) -> T:
    """What a call brought, if it is what was asked for; a user's own model may bring anything."""
    if isinstance(result, kind):
        return checked(result, f"the {role}")
    raise BackendError(f"the {role} returned a {type(result).__name__}, not a {kind.__name__}")


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
        print_of_it = fingerprint_of_messages(messages)
        kept = self.desk.replay.replies.get((self.role, self.calls))
        if kept is not None and self.desk.replay.answers(kept, print_of_it):
            return _reply_of(kept)
        reply, seconds = await self.desk.make(
            self.role,
            slot,
            lambda: self.vlm.complete(messages, asked),
            kind=Reply,
            price=None,
            deadline=self.capabilities.deadline or VLM_DEADLINE_SECONDS,
        )
        self.desk.meter.spend(reply.cost)
        await self.desk.keep(
            Replied(
                role=self.role,
                call=slot.call,
                step=slot.step,
                attempt=slot.attempt,
                fingerprint=print_of_it,
                text=reply.text,
                finish_reason=reply.finish_reason,
                usage=reply.usage,
                cost=reply.cost,
                tokens=tuple((token.text, token.probability) for token in reply.tokens),
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
        print_of_it = fingerprint_of_drawing(request)
        kept = self.desk.replay.drawings.get(self.calls)
        if kept is not None and self.desk.replay.answers(kept, print_of_it):
            try:
                return sealed(self.desk.store.get(kept.image))
            except MissingPicture:
                if not self.desk.replay.redraw:
                    raise
        told = self.capabilities.price_per_image
        price = told if is_price(told) else None
        drawn, seconds = await self.desk.make(
            "generator",
            asked.slot,
            lambda: self.generator.generate(asked),
            kind=Image,
            price=price,
            deadline=self.capabilities.deadline or IMAGE_DEADLINE_SECONDS,
        )
        self.desk.meter.spend(price)
        if too_large(drawn.size):
            raise BackendError(
                f"the generator drew {drawn.width}×{drawn.height} pixels, more than is allowed"
            )

        def line(name: str) -> Drawn:
            return Drawn(
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

        return await self.desk.keep_picture(drawn, self._metadata(asked), line)

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
            "planner",
            Slot(),
            lambda: self.planner.plan(request),
            kind=Plan,
            price=None,
            deadline=VLM_DEADLINE_SECONDS,
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
            "critic",
            slot,
            lambda: self.critic.judge(seen),
            kind=Verdict,
            price=None,
            deadline=VLM_DEADLINE_SECONDS,
        )
        return made


def _reply_of(kept: Replied) -> Reply:
    tokens = tuple(Token(text, probability) for text, probability in kept.tokens)
    return Reply(kept.text, kept.finish_reason, dict(kept.usage), kept.cost, tokens)
