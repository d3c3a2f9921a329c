"""Find the sub-tasks of a video, coarse to fine.

Coarse: the annotator divides a window of equally spaced frames into sub-tasks. Between two frames of
different sub-tasks lies a boundary. Fine: the annotator gets the frames between those two, and so on, until
the boundary is exact. A video that is too long for one window is split into windows that share a frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from pydantic import Field

from interleave import ReplyError
from interleave.plugin import Prose, Value
from interleave.robots.annotator import Annotator
from interleave.robots.replies import SheetSegment

if TYPE_CHECKING:
    from PIL.Image import Image


class Segment(Value):
    """A sub-task: from its first frame to the first frame of the next, exclusive."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)
    instruction: Prose


class Frames(Protocol):
    """A video."""

    @property
    def length(self) -> int: ...

    def frames(self, places: Sequence[int]) -> list[Image]: ...


@dataclass(frozen=True)
class FrameSampling:
    """The frames of a video that the annotator gets."""

    stride: int
    """Coarse: distance between two frames."""
    window: int
    """Frames per call."""
    precision: int = 1
    """Fine: maximum error of a boundary in frames."""


@dataclass(frozen=True)
class _Boundary:
    """The end of a sub-task, after frame `low` and not after frame `high`."""

    low: int
    high: int


@dataclass(frozen=True)
class _Sketch:
    """Sub-tasks and the boundaries between them. The last sub-task may have no name yet."""

    instructions: tuple[str | None, ...]
    boundaries: tuple[_Boundary, ...]


async def annotate_video(
    annotator: Annotator, video: Frames, task: str, sampling: FrameSampling
) -> list[Segment]:
    """Return the sub-tasks of a video, from its first frame to its last; raise `ReplyError` if unreadable."""
    sketch: _Sketch | None = None
    for window in windows(video.length, sampling):
        shown = await asyncio.to_thread(video.frames, window)
        seen = _seen_in(window, await annotator.segments(task, shown))
        sketch = seen if sketch is None else _joined(sketch, seen, window[0])
    if sketch is None:
        raise ValueError("a video has at least one frame")
    instructions = [each or "" for each in sketch.instructions]
    if not instructions[-1] and len(instructions) > 1:  # after the last change the robot only returns to rest
        instructions.pop()
    found = sketch.boundaries[: len(instructions) - 1]
    exact = [
        await _narrowed(annotator, video, boundary, earlier, later, sampling)
        for boundary, (earlier, later) in zip(found, pairwise(instructions), strict=True)
    ]
    return _segments([each or task or "?" for each in instructions], exact, video.length)


def windows(length: int, sampling: FrameSampling) -> list[list[int]]:
    """Return windows of frame numbers; each begins with the last frame of the one before."""
    places = [*range(0, length - 1, sampling.stride), length - 1] if length > 1 else [0]
    step = sampling.window - 1
    return [places[start : start + sampling.window] for start in range(0, max(1, len(places) - 1), step)]


def spread(low: int, high: int, count: int) -> list[int]:
    """Return up to `count` equally spaced numbers from `low` to `high`, inclusive."""
    count = min(count, high - low + 1)
    return [low + round(place * (high - low) / (count - 1)) for place in range(count)]


def _seen_in(places: Sequence[int], segments: Sequence[SheetSegment]) -> _Sketch:
    between = (_Boundary(places[max(later.first - 2, 0)], places[later.first - 1]) for later in segments[1:])
    return _Sketch(tuple(each.instruction for each in segments), tuple(between))


def _joined(before: _Sketch, after: _Sketch, shared: int) -> _Sketch:
    """Join two windows; the sub-tasks of the shared frame merge unless both have different names."""
    last, first = before.instructions[-1], after.instructions[0]
    if last is None or first is None or last.casefold() == first.casefold():
        instructions = (*before.instructions[:-1], last or first, *after.instructions[1:])
        return _Sketch(instructions, (*before.boundaries, *after.boundaries))
    return _Sketch(
        (*before.instructions, *after.instructions),
        (*before.boundaries, _Boundary(shared, shared + 1), *after.boundaries),
    )


async def _narrowed(
    annotator: Annotator,
    video: Frames,
    boundary: _Boundary,
    earlier: str,
    later: str,
    sampling: FrameSampling,
) -> int:
    """Return the first frame of the later sub-task, or the best estimate if a reply is unreadable."""
    while boundary.high - boundary.low > sampling.precision:
        places = spread(boundary.low, boundary.high, sampling.window)
        shown = await asyncio.to_thread(video.frames, places)
        try:
            number = await annotator.boundary(earlier, later, shown)
        except ReplyError:
            break
        boundary = replace(boundary, low=places[number - 2], high=places[number - 1])
    return boundary.high


def _segments(instructions: Sequence[str], starts: Sequence[int], length: int) -> list[Segment]:
    """Return sub-tasks that cover the video without gaps, without empty ones."""
    found: list[Segment] = []
    edges = [0, *(min(start, length) for start in starts), length]
    for instruction, start, end in zip(instructions, edges, edges[1:], strict=False):
        first = max(start, found[-1].end if found else 0)
        if end > first:
            found.append(Segment(start=first, end=end, instruction=instruction))
    return found
