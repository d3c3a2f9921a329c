"""Answers that a journal already has, and how a question is recognised as the one they answered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from interleave.backends.protocols import ImageRequest, Message
from interleave.errors import RunError
from interleave.pictures import pixel_digest
from interleave.runs.journal import Drawn, Ended, Entry, Judged, Planned, Replied
from interleave.types import Picture, Plan, Verdict


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
        replay, plans = cls(redraw=redraw), 0
        for entry in entries:
            match entry:
                case Replied():
                    replay.replies[entry.role, entry.call] = entry
                    plans = max(plans, entry.call) if entry.role == "planner" else plans
                case Drawn():
                    replay.drawings[entry.call] = entry
                case Planned():
                    replay.plan = entry.plan
                case Judged():
                    replay.verdicts[entry.step, entry.attempt] = entry.verdict
                case Ended(unreadable_plan=True):
                    replay.spent_plans = plans
        return replay


def fingerprint_of_messages(messages: Sequence[Message]) -> str:
    digest = hashlib.sha256()
    for message in messages:
        digest.update(f"\x00{message.role}".encode())
        for part in message.parts:
            said = pixel_digest(part.image) if isinstance(part, Picture) else f"\x01{part.text}"
            digest.update(said.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def fingerprint_of_drawing(request: ImageRequest) -> str:
    sources = ",".join(pixel_digest(source) for source in request.sources)
    return hashlib.sha256(f"{request.seed}/{sources}/{request.prompt}".encode()).hexdigest()[:32]
