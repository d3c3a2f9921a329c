"""Native systems as planners: their document is the plan, and its images are the first attempts.

Each image ends a step. The text before it is the step's caption and, for the critic and for other attempts,
its prompt. Text after the last image is a text-only step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from interleave.backends.protocols import DocumentEnd, DocumentModel
from interleave.errors import BackendError, Failure
from interleave.images import too_large
from interleave.redaction import redacted
from interleave.text import MAX_FIELD_CHARACTERS, count, storable
from interleave.types import ImagePart, Part, Plan, PlanStep, Request, Text

DOCUMENT_DEADLINE_SECONDS = 900.0
"""Default deadline of a whole document."""
TRUNCATED = "The document ends where its model reached its length limit."


@dataclass(frozen=True)
class WrittenDocument:
    """A document of a native system."""

    parts: tuple[Part, ...]
    end: DocumentEnd


class DocumentPlanner:
    """A native system in place of a planner."""

    def __init__(self, model: DocumentModel) -> None:
        self.model = model

    async def plan(self, request: Request) -> Plan:
        """Return the plan that follows from the document, without its images."""
        document = await self.write(request)
        return plan_of(texts_of(document.parts), request, document.end.finish_reason)

    async def write(self, request: Request) -> WrittenDocument:
        """Return the whole document. Raises a transient `BackendError` for an empty one."""
        parts: list[Part] = []
        end = DocumentEnd()
        async with aclosing(self.model.write(request)) as events:  # type: ignore[type-var]
            async for event in events:
                match event:
                    case DocumentEnd():
                        end = event
                    case Text(text) if text.strip():
                        parts.append(Text(redacted(storable(text.replace("\x00", "")))))
                    case ImagePart(image):
                        _refuse_too_large(image.size)
                        parts.append(event)
        if not parts:
            raise BackendError("the document is empty", transient=True, kind=Failure.BAD_REPLY)
        return WrittenDocument(tuple(parts), end)


def _refuse_too_large(size: tuple[int, int]) -> None:
    if too_large(size):
        raise BackendError(f"the document has an image of {size[0]}×{size[1]} pixels, which is too large")


def texts_of(parts: Iterable[Part]) -> list[str | None]:
    """Return the text of each part, `None` for an image."""
    return [part.text if isinstance(part, Text) else None for part in parts]


def plan_of(texts: Sequence[str | None], request: Request, finish_reason: str = "stop") -> Plan:
    """Return the plan of a document from its texts, with `None` in place of each image."""
    steps: list[PlanStep] = []
    said: list[str] = []
    shown = request.text.strip() or "An image of the document."

    def add_text(text: str) -> None:
        for start in range(0, len(text), MAX_FIELD_CHARACTERS):
            steps.append(PlanStep(number=len(steps) + 1, caption=text[start : start + MAX_FIELD_CHARACTERS]))

    for text in texts:
        if text is not None:
            said.append(text)
            continue
        caption = "".join(said).strip()
        if len(caption) > MAX_FIELD_CHARACTERS:
            add_text(caption)
            caption = ""
        shown = caption or shown[:MAX_FIELD_CHARACTERS]  # an image without text continues the one before it
        steps.append(PlanStep(number=len(steps) + 1, prompt=shown, caption=caption or None))
        said = []
    add_text("".join(said).strip())
    notes = (TRUNCATED,) if finish_reason == "length" else ()
    return Plan(steps=tuple(steps), notes=notes)


def first_images(plan: Plan, names: Sequence[str]) -> dict[int, str]:
    """Return the document's images by the number of their step."""
    drawn = [step.number for step in plan.steps if step.prompt is not None]
    if len(drawn) != len(names):
        raise ValueError(f"the document has {count(len(names), 'image')} for {count(len(drawn), 'step')}")
    return dict(zip(drawn, names, strict=True))
