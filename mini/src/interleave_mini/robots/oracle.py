"""What the oracle knows of robots: it reads where the gripper is, what it holds and where the blocks lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from PIL.Image import Image

from interleave import Outcome, ReplyError, Verdict
from interleave.robots.replies import SheetSegment
from interleave.robots.sub_task_check import SubTaskInput
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.language.sentences import say_all
from interleave_mini.language.words import POSITIONS
from interleave_mini.reader import shared_batched_reader
from interleave_mini.reader.scores import ACCEPTED, describe_faults
from interleave_mini.robots.gripper import correction, same_state
from interleave_mini.robots.hand_reader import Hand, read_hands
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import GRID, Gripper, Scene, Size, Thing
from interleave_mini.world.sprites import CELL

MOVING = "Wrong. The gripper is still moving."
AT_REST = 4
"""Pixels that a gripper at rest may be away from its place."""


def what_is_wrong(shown: Scene, wanted: Scene) -> str:
    """The faults of a state; above which column the gripper hangs is none."""
    if shown.gripper and wanted.gripper:
        wanted = replace(wanted, gripper=Gripper(shown.gripper.column, wanted.gripper.holds))
    return describe_faults(shown, wanted)


def check_sub_task(seen: SubTaskInput) -> Verdict:
    """Whether a sub-task is done; where it is not, with what the gripper has to do from here."""
    reader = shared_batched_reader()
    before, after = reader.read(seen.before).scene, reader.read(seen.after).scene
    try:
        wanted = parse_prompt(seen.instruction, before)
    except (NotUnderstood, Impossible) as error:
        return Verdict(outcome=Outcome.UNREADABLE, reasoning=f"the oracle cannot tell what is asked: {error}")
    [hand] = read_hands([seen.after])
    if hand is None or not _is_at_rest(hand):
        return _not_done(MOVING, seen.instruction)
    if same_state(after, wanted):
        return Verdict(outcome=Outcome.ACCEPTED, reasoning=ACCEPTED, confidence=1.0)
    try:
        return _not_done(what_is_wrong(after, wanted), say_all(correction(after, wanted), after))
    except Impossible as error:
        return _not_done(f"{what_is_wrong(after, wanted)} {error}", seen.instruction)


def _not_done(reasoning: str, what_to_do: str) -> Verdict:
    return Verdict(outcome=Outcome.REJECTED, reasoning=reasoning, refined_prompt=what_to_do, confidence=0.0)


def _is_at_rest(hand: Hand) -> bool:
    return hand.down <= AT_REST and (hand.across + AT_REST) % CELL <= 2 * AT_REST


def find_segments(frames: Sequence[Image]) -> tuple[SheetSegment, ...]:
    """The sub-tasks that end in these frames, and a last one without a name."""
    found: list[SheetSegment] = []
    first = 1
    for number, instruction in _events(frames):
        found.append(SheetSegment(first=first, instruction=instruction))
        first = number
    return (*found, SheetSegment(first=first, instruction=None))


def find_boundary(earlier: str, frames: Sequence[Image]) -> int:
    """The number of the frame in which a sub-task is done."""
    events = _events(frames)
    if not events:
        raise ReplyError("nothing changes in these frames", reply="")
    return next((number for number, instruction in events if instruction == earlier), events[0][0])


def _events(frames: Sequence[Image]) -> list[tuple[int, str]]:
    """What has changed from frame to frame: the number of the later frame, and what was done."""
    hands, events = read_hands(frames), list[tuple[int, str]]()
    for number, (before, after) in enumerate(pairwise(hands), start=2):
        if before is None or after is None or before.holds == after.holds:
            continue
        if before.holds is not None:
            cell = _cell_of(before.holds, before, after, frames[number - 1])
            where = POSITIONS[cell][0]
            events.append((number, f"The gripper puts the {before.holds} block down {where}."))
        if after.holds is not None:
            events.append((number, f"The gripper picks up the {after.holds} block."))
    return events


def _cell_of(colour: str, before: Hand, after: Hand, frame: Image) -> int:
    """Where a block was put down: where it is seen, or else where the gripper is lowest."""
    low = max(before, after, key=lambda hand: hand.down)
    if low.cell >= GRID and low.down >= CELL - AT_REST and low.down % CELL <= AT_REST:
        return low.cell
    block = Thing("block", colour, Size.SMALL)
    seen = shared_batched_reader().read(frame).scene.cells
    cells = [cell for cell in range(GRID, len(seen)) if seen[cell] == block]
    return cells[0] if len(cells) == 1 else max(low.cell, GRID)
