"""Parse annotators' replies: the sub-tasks in the frames of a video, and the first frame of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pydantic import Field

from interleave import Plan, Reply
from interleave.plugin import Prose, Value, agents, errors

SEGMENT_KEYS = ("segments",)
BOUNDARY_KEYS = ("boundary_frame",)
NOTHING_CHANGES = ("nothing changes", "nothing has changed", "no change")
_DIGITS = re.compile(r"[0-9]{1,7}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")

SEGMENTS_SCHEMA = agents.object_schema(
    segments={
        "type": "array",
        "items": agents.object_schema(first_frame={"type": "integer"}, instruction=agents.TEXT_SCHEMA),
    }
)
BOUNDARY_SCHEMA = agents.object_schema(boundary_frame={"type": "integer"})


class SheetSegment(Value):
    """A sub-task in a window of frames, with the number of its first frame, from 1."""

    first: int = Field(ge=1)
    instruction: Prose | None
    """None if the sub-task continues after the last frame and cannot be named yet."""


def parse_segments(reply: Reply | str, frames: int) -> tuple[SheetSegment, ...]:
    """Return the sub-tasks in `frames` frames in order; the first begins with frame 1.

    A reply with one text per frame, which describes the change since the previous frame, is accepted too. A
    change ends a sub-task, and the sub-task after the last change has no name yet.
    """
    return agents.parse_reply(
        reply,
        (*SEGMENT_KEYS, *agents.PLAN_KEYS),
        lambda value, _: (
            _segments(value, frames)
            if SEGMENT_KEYS[0] in value
            else _changes(agents.read_plan(value, ""), frames)
        ),
    )


def parse_boundary(reply: Reply | str, frames: int, earlier: str) -> int:
    """Return the number of the first frame, from 2 to `frames`, of the sub-task after `earlier`."""
    return agents.parse_reply(
        reply,
        (*BOUNDARY_KEYS, *agents.PLAN_KEYS),
        lambda value, _: (
            _boundary(value, frames)
            if BOUNDARY_KEYS[0] in value
            else _end_of(earlier, _changes(agents.read_plan(value, ""), frames))
        ),
    )


def _segments(value: Any, frames: int) -> tuple[SheetSegment, ...]:
    listed = agents.require_object(value, "the answer").get(SEGMENT_KEYS[0])
    if not isinstance(listed, list) or not listed:
        raise errors.UnreadableLiteral(f'the answer must be one object with a list under "{SEGMENT_KEYS[0]}"')
    found: list[SheetSegment] = []
    for position, item in enumerate(listed, start=1):
        fields = agents.require_object(item, f"sub-task {position}")
        first, said = _frame(fields.get("first_frame"), "first_frame", 1, frames), fields.get("instruction")
        if not isinstance(said, str) or not said.strip():
            raise errors.UnreadableLiteral(f'"instruction" of sub-task {position} must be a text')
        if found and first <= found[-1].first:
            raise errors.UnreadableLiteral(
                "the sub-tasks must follow each other, each with frames of its own"
            )
        found.append(SheetSegment(first=first if found else 1, instruction=said.strip()))
    return tuple(found)


def _boundary(value: Any, frames: int) -> int:
    return _frame(
        agents.require_object(value, "the answer").get(BOUNDARY_KEYS[0]), BOUNDARY_KEYS[0], 2, frames
    )


def _frame(value: Any, key: str, least: int, most: int) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise errors.UnreadableLiteral(
            f'"{key}" must be the number of a frame, {least} to {most}, not {value!r:.60}'
        )
    return value


def _changes(plan: Plan, frames: int) -> tuple[SheetSegment, ...]:
    if len(plan.steps) != frames:
        raise errors.UnreadableLiteral(
            f"there are {frames} frames, and the answer has {len(plan.steps)} texts"
        )
    found: list[SheetSegment] = []
    first = 1
    for number, step in enumerate(plan.steps[1:], start=2):
        changed = [each.strip() for each in _SENTENCE.split(step.text) if each.strip()]
        for sentence in changed:
            if sentence.rstrip(".").lower() not in NOTHING_CHANGES:
                found.append(SheetSegment(first=first, instruction=sentence))
                first = number
    return (*found, SheetSegment(first=first, instruction=None))


def _end_of(earlier: str, segments: Sequence[SheetSegment]) -> int:
    """Return the frame after the sub-task of this name, or after the first one if none has this name."""
    ends = {each.instruction: later.first for each, later in reversed([*pairwise(segments)])}
    if not ends:
        raise errors.UnreadableLiteral(
            "nothing changes in these frames, and a sub-task ends in them: look again"
        )
    return ends.get(earlier, segments[1].first)
