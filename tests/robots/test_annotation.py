"""A film becomes sub-tasks, coarse to fine, whatever the annotator answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from PIL import Image

from interleave.errors import ReplyError
from interleave.robots.replies import SheetSegment, parse_boundary, parse_segments
from interleave.robots.video_segments import FrameSampling, Segment, annotate_video, spread, windows


class CountedFilm:
    """A film whose frames say their own number, in the colour of their only pixel."""

    def __init__(self, length: int) -> None:
        self.length = length

    def frames(self, places: Sequence[int]) -> list[Image.Image]:
        return [Image.new("RGB", (1, 1), (place // 256, place % 256, 0)) for place in places]


def numbers_of(frames: Sequence[Image.Image]) -> list[int]:
    pixels = [frame.getpixel((0, 0)) for frame in frames]
    return [256 * pixel[0] + pixel[1] for pixel in pixels if isinstance(pixel, tuple)]


class KnowsTheTruth:
    """An annotator that knows where sub-tasks begin, and counts what it is shown."""

    def __init__(self, starts: Sequence[int], *, says_changes: bool = False) -> None:
        self.starts, self.says_changes = list(starts), says_changes
        self.calls, self.most = 0, 0

    def sub_task(self, frame: int) -> int:
        return sum(start <= frame for start in self.starts)

    async def segments(self, task: str, frames: Sequence[Image.Image]) -> tuple[SheetSegment, ...]:
        self.calls, self.most = self.calls + 1, max(self.most, len(frames))
        seen = [self.sub_task(number) for number in numbers_of(frames)]
        firsts = [at for at, each in enumerate(seen) if at == 0 or each != seen[at - 1]]
        names = [f"do {seen[at]}" for at in firsts]
        if self.says_changes:  # what a sub-task is cannot be known before it has ended
            named: list[str | None] = [*names[:-1], None]
            return tuple(
                SheetSegment(first=at + 1, instruction=name) for at, name in zip(firsts, named, strict=True)
            )
        return tuple(
            SheetSegment(first=at + 1, instruction=name) for at, name in zip(firsts, names, strict=True)
        )

    async def boundary(self, earlier: str, later: str, frames: Sequence[Image.Image]) -> int:
        self.calls, self.most = self.calls + 1, max(self.most, len(frames))
        wanted = int(earlier.split()[1])
        return next(at for at, each in enumerate(numbers_of(frames), 1) if self.sub_task(each) > wanted)


def annotated(annotator: KnowsTheTruth, length: int, looking: FrameSampling) -> list[Segment]:
    return asyncio.run(annotate_video(annotator, CountedFilm(length), "a task", looking))


@pytest.mark.parametrize("says_changes", [False, True])
@pytest.mark.parametrize("at_once", [4, 8, 60])
def test_boundaries_are_found_to_the_frame_and_few_frames_are_looked_at(
    at_once: int, says_changes: bool
) -> None:
    knows = KnowsTheTruth([0, 37, 91, 240], says_changes=says_changes)
    found = annotated(knows, 300, FrameSampling(stride=10, window=at_once))
    last = [(91, 240), (240, 300)]
    if says_changes:  # what follows the last change has no name, and belongs to the last sub-task
        last = [(91, 300)]
    assert [(each.start, each.end) for each in found] == [(0, 37), (37, 91), *last]
    assert [each.instruction for each in found] == [f"do {number}" for number in range(1, len(found) + 1)]
    assert knows.most <= at_once


def test_coarse_precision_costs_fewer_calls() -> None:
    exact, rough = KnowsTheTruth([0, 501]), KnowsTheTruth([0, 501])
    [_, second] = annotated(exact, 1000, FrameSampling(50, 6))
    [_, about] = annotated(rough, 1000, FrameSampling(50, 6, precision=16))
    assert second.start == 501
    assert 501 <= about.start <= 501 + 16
    assert rough.calls < exact.calls


def test_a_film_in_which_nothing_ends_is_one_sub_task_named_by_its_task() -> None:
    [only] = annotated(KnowsTheTruth([0], says_changes=True), 50, FrameSampling(5, 8))
    assert only == Segment(start=0, end=50, instruction="a task")


def test_a_film_of_one_frame_is_a_sub_task() -> None:
    [only] = annotated(KnowsTheTruth([0]), 1, FrameSampling(5, 8))
    assert (only.start, only.end) == (0, 1)


def test_a_boundary_that_cannot_be_told_stays_as_coarse_as_it_was() -> None:
    class CannotTell(KnowsTheTruth):
        async def boundary(self, earlier: str, later: str, frames: Sequence[Image.Image]) -> int:
            raise ReplyError("no idea", reply="")

    [_, second] = annotated(CannotTell([0, 33]), 100, FrameSampling(10, 8))
    assert second.start == 40


def test_windows_cover_the_film_and_share_a_frame() -> None:
    looking = FrameSampling(stride=7, window=5)
    for length in (1, 2, 8, 29, 30, 31, 300):
        shown = windows(length, looking)
        assert shown[0][0] == 0 and shown[-1][-1] == length - 1
        assert all(len(window) <= 5 for window in shown)
        assert all(one[-1] == other[0] for one, other in pairwise(shown))
    assert spread(3, 4, 8) == [3, 4]
    assert spread(0, 100, 3) == [0, 50, 100]


# What models write


def test_segments_are_read_as_models_write_them() -> None:
    said = '<think>…</think><answer>{"segments": [{"first_frame": 1, "instruction": "pick up the cup"}, '
    said += '{"first_frame": "4", "instruction": "put it down"}]}</answer>'
    assert [(each.first, each.instruction) for each in parse_segments(said, 6)] == [
        (1, "pick up the cup"),
        (4, "put it down"),
    ]
    for wrong, problem in (
        (said.replace('"4"', "9"), "1 to 6"),
        (said.replace('"4"', "1"), "follow each other"),
        (said.replace("put it down", ""), "must be a text"),
        ('{"segments": []}', "list"),
        ("no idea", "no object"),
    ):
        with pytest.raises(ReplyError, match=problem):
            parse_segments(wrong, 6)


def captions(*texts: str) -> str:
    steps = ", ".join(
        f'{{"step_number": {n}, "auxiliary_text": "{text}"}}' for n, text in enumerate(texts, 1)
    )
    return f'<answer>{{"execution_plan": [{steps}]}}</answer>'


def test_texts_about_what_has_changed_are_read_as_segments() -> None:
    said = captions("A bench.", "Nothing changes.", "It takes the cup.", "It puts it down. It takes a pen.")
    assert [(each.first, each.instruction) for each in parse_segments(said, 4)] == [
        (1, "It takes the cup."),
        (3, "It puts it down."),
        (4, "It takes a pen."),
        (4, None),
    ]
    assert parse_boundary(said, 4, "It takes the cup.") == 3
    assert parse_boundary(said, 4, "It takes a pen.") == 4
    assert parse_boundary(said, 4, "something it never said") == 3
    with pytest.raises(ReplyError, match="nothing changes"):
        parse_boundary(captions("A bench.", "Nothing changes."), 2, "It takes the cup.")
    with pytest.raises(ReplyError, match="there are 3 frames"):
        parse_segments(said, 3)


def test_a_boundary_is_the_number_of_a_frame_after_the_first() -> None:
    assert parse_boundary('{"boundary_frame": 3}', 5, "") == 3
    for wrong in ("1", "6", "true", "null", '"x"'):
        with pytest.raises(ReplyError, match="2 to 5"):
            parse_boundary(f'{{"boundary_frame": {wrong}}}', 5, "")
