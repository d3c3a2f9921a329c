"""A film → its sub-tasks, coarse to fine.

Coarse: frames at equal distances, shown together, are divided into sub-tasks; between two frames that belong
to different ones lies a boundary. Fine: the frames between those two are shown, and so on, until the boundary
is known to the frame. A film that is too long to be shown at once is seen in windows that share a frame.
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

NEAREST, FARTHEST = 2, 64
"""How few and how many frames can be shown at once."""


class Segment(Value):
    """A sub-task: from its first frame up to, and without, the first frame of the next."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)
    instruction: Prose


class Frames(Protocol):
    """A film."""

    @property
    def length(self) -> int: ...

    def frames(self, places: Sequence[int]) -> list[Image]: ...


@dataclass(frozen=True)
class Looking:
    """How a film is looked at."""

    stride: int
    """Coarse: every so many frames."""
    at_once: int
    """Frames that are shown at once."""
    precision: int = 1
    """Fine: a boundary is known to so many frames."""


@dataclass(frozen=True)
class _Boundary:
    """Somewhere after frame `low` and not after frame `high` a sub-task ends."""

    low: int
    high: int


@dataclass(frozen=True)
class _Sketch:
    """Sub-tasks, and the boundaries between them: one fewer. The last may have no name yet."""

    instructions: tuple[str | None, ...]
    boundaries: tuple[_Boundary, ...]


async def annotate_film(annotator: Annotator, film: Frames, task: str, looking: Looking) -> list[Segment]:
    """The sub-tasks of a film, from its first frame to its last; raises `ReplyError`."""
    sketch: _Sketch | None = None
    for window in windows(film.length, looking):
        shown = await asyncio.to_thread(film.frames, window)
        seen = _seen_in(window, await annotator.segments(task, shown))
        sketch = seen if sketch is None else _joined(sketch, seen, window[0])
    if sketch is None:
        raise ValueError("a film has at least one frame")
    instructions = [each or "" for each in sketch.instructions]
    if not instructions[-1] and len(instructions) > 1:  # after the last change the robot only goes to rest
        instructions.pop()
    found = sketch.boundaries[: len(instructions) - 1]
    exact = [
        await _narrowed(annotator, film, boundary, earlier, later, looking)
        for boundary, (earlier, later) in zip(found, pairwise(instructions), strict=True)
    ]
    return _segments([each or task or "?" for each in instructions], exact, film.length)


def windows(length: int, looking: Looking) -> list[list[int]]:
    """The frames that are shown together; each window begins with the last frame of the one before."""
    places = [*range(0, length - 1, looking.stride), length - 1] if length > 1 else [0]
    step = looking.at_once - 1
    return [places[start : start + looking.at_once] for start in range(0, max(1, len(places) - 1), step)]


def spread(low: int, high: int, count: int) -> list[int]:
    """At most so many places from one to the other, both included, at equal distances."""
    count = min(count, high - low + 1)
    return [low + round(place * (high - low) / (count - 1)) for place in range(count)]


def _seen_in(places: Sequence[int], segments: Sequence[SheetSegment]) -> _Sketch:
    between = (_Boundary(places[max(later.first - 2, 0)], places[later.first - 1]) for later in segments[1:])
    return _Sketch(tuple(each.instruction for each in segments), tuple(between))


def _joined(before: _Sketch, after: _Sketch, shared: int) -> _Sketch:
    """Two windows as one: the sub-task of the frame that they share is one, unless both name it otherwise."""
    last, first = before.instructions[-1], after.instructions[0]
    if last is None or first is None or last.casefold() == first.casefold():
        instructions = (*before.instructions[:-1], last or first, *after.instructions[1:])
        return _Sketch(instructions, (*before.boundaries, *after.boundaries))
    return _Sketch(
        (*before.instructions, *after.instructions),
        (*before.boundaries, _Boundary(shared, shared + 1), *after.boundaries),
    )


async def _narrowed(
    annotator: Annotator, film: Frames, boundary: _Boundary, earlier: str, later: str, looking: Looking
) -> int:
    """The first frame of the later sub-task; where the annotator cannot tell, as well as it is known."""
    while boundary.high - boundary.low > looking.precision:
        places = spread(boundary.low, boundary.high, looking.at_once)
        shown = await asyncio.to_thread(film.frames, places)
        try:
            number = await annotator.boundary(earlier, later, shown)
        except ReplyError:
            break
        boundary = replace(boundary, low=places[number - 2], high=places[number - 1])
    return boundary.high


def _segments(instructions: Sequence[str], starts: Sequence[int], length: int) -> list[Segment]:
    """Sub-tasks that cover the film without gaps; one that has no frame of its own is left out."""
    found: list[Segment] = []
    edges = [0, *(min(start, length) for start in starts), length]
    for instruction, start, end in zip(instructions, edges, edges[1:], strict=False):
        first = max(start, found[-1].end if found else 0)
        if end > first:
            found.append(Segment(start=first, end=end, instruction=instruction))
    return found
