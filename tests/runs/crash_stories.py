"""Long documents for runs that are killed: two lines of images, refusals, drift, and contradictions.

Everything that the models say follows from what they are asked, so an undisturbed run is always the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

import interleave
from interleave.agents.auditor import Document
from interleave.agents.critic import CriticInput
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.types import Finding, Outcome, Plan, PlanStep, Verdict

NEEDS: list[tuple[int, ...] | None] = [None, (1,), (), (3,), (2,), (4,), (5, 6)]
"""1 → 2 → 5 and 3 → 4 → 6, and 7 after both."""
REFUSED = {2: 2, 6: 3}
"""The attempts up to this one of these steps are refused; of step 6 so many that the run goes back twice."""
MOVED = 4
"""The step whose image moves too far when it is drawn over the one before."""
CONTRADICTING = (1, 7)
"""The steps that the first look at the whole finds."""
REMEDIES = {
    "parallel": "none",
    "rollback": "rollback=3",
    "audit": "audit=2",
    "anchors": "anchor=2",
    "drift": "drift=2",
    "chapters": "rollback=3",
    "all": "rollback=3,drift=2,audit=2,anchor=3",
}


def plan() -> Plan:
    return Plan(
        steps=tuple(
            PlanStep(number=number, prompt=f"part {number}", scene=f"all of part {number}", needs=needs)
            for number, needs in enumerate(NEEDS, start=1)
        )
    )


class Painter:
    """Adds a dot to the image before, or begins with a colour; one step also makes everything lighter."""

    capabilities = GeneratorCapabilities(max_sources=2)

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.note(f"generator:{request.slot.step}:{request.slot.attempt}")
        for _ in range(request.slot.step % 4):
            await asyncio.sleep(0.001)
        if not request.sources:
            return Image.new("RGB", (32, 32), (request.seed % 200, 60, 90))
        image = request.sources[-1].copy()
        if request.slot.step == MOVED:
            image = image.point(lambda level: min(255, level + 6))
        side = 2 + request.slot.step
        image.paste((250, request.seed % 200, 250), (side, side, side + 4, side + 4))
        return image


class Critic:
    """Refuses and finds what it is told to."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note

    async def judge(self, seen: CriticInput) -> Verdict:
        self.note(f"critic:{seen.slot.step}:{seen.slot.attempt}")
        await asyncio.sleep(0)
        if seen.slot.attempt <= REFUSED.get(seen.slot.step, 0):
            return Verdict(outcome=Outcome.REJECTED, confidence=0.1 * seen.slot.attempt)
        return Verdict(outcome=Outcome.ACCEPTED, confidence=0.9)

    async def audit(self, document: Document) -> tuple[Finding, ...]:
        self.note(f"audit:{document.round}")
        found = CONTRADICTING if document.round == 1 else ()
        return tuple(Finding(step=number, reasoning="it contradicts") for number in found)


def tell(folder: str, kind: str, note: Callable[[str], None]) -> str:
    """Make or continue the document of a kind; returns how it ended."""
    models: dict[str, Any] = {"generator": Painter(note), "critic": Critic(note)}
    if kind == "chapters":
        models |= {"planner": "scripted", "chapter_steps": 3}
    else:
        models["plan"] = plan()
    told = interleave.generate(
        "a story in 7 pictures", out=Path(folder), max_attempts=1, drift_control=REMEDIES[kind], **models
    )
    return told.status
