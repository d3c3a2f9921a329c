"""Find the sub-tasks in the frames of a video, and the exact first frame of a sub-task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from interleave import ImagePart, Sampling, VisionLanguageModel
from interleave.plugin import Part, PromptPack, ask
from interleave.robots.contact_sheets import contact_sheets
from interleave.robots.replies import (
    BOUNDARY_SCHEMA,
    SEGMENTS_SCHEMA,
    SheetSegment,
    parse_boundary,
    parse_segments,
)

if TYPE_CHECKING:
    from PIL.Image import Image


Slots = dict[str, str | tuple[Part, ...]]


class Annotator(Protocol):
    """A finder of sub-tasks in a window of frames. Frames are numbered from 1."""

    async def segments(self, task: str, frames: Sequence[Image]) -> tuple[SheetSegment, ...]:
        """Return the sub-tasks in these frames in order; the first begins with frame 1."""
        ...

    async def boundary(self, earlier: str, later: str, frames: Sequence[Image]) -> int:
        """Return the number of the first frame of the later of two sub-tasks, from 2."""
        ...


class VlmAnnotator:
    """An annotator that prompts a vision-language model, with contact sheets or with single frames."""

    def __init__(self, vlm: VisionLanguageModel, pack: PromptPack, *, columns: int | None) -> None:
        self.vlm = vlm
        self.pack = pack
        self.columns = columns
        """Frames per row of a contact sheet; None: every frame is a separate image."""

    async def segments(self, task: str, frames: Sequence[Image]) -> tuple[SheetSegment, ...]:
        slots: Slots = {
            "task": task or "(not known)",
            "count": str(len(frames)),
            "frames": self._shown(frames),
        }
        return await ask(
            self.vlm,
            self.pack.messages("robot_segments", slots),
            partial(parse_segments, frames=len(frames)),
            sampling=Sampling(schema=SEGMENTS_SCHEMA),
            pack=self.pack,
        )

    async def boundary(self, earlier: str, later: str, frames: Sequence[Image]) -> int:
        slots: Slots = {
            "earlier": earlier,
            "later": later,
            "count": str(len(frames)),
            "frames": self._shown(frames),
        }
        return await ask(
            self.vlm,
            self.pack.messages("robot_boundary", slots),
            partial(parse_boundary, frames=len(frames), earlier=earlier),
            sampling=Sampling(schema=BOUNDARY_SCHEMA),
            pack=self.pack,
        )

    def _shown(self, frames: Sequence[Image]) -> tuple[Part, ...]:
        shown = frames if self.columns is None else contact_sheets(frames, columns=self.columns)
        return tuple(map(ImagePart, shown))
