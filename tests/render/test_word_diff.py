"""What changed between two prompts: told in words, and never at a cost beyond the prompts' length."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import overload

import pytest

from interleave.render.word_diff import MOST_CHANGES, common, prompt_changes


class Counting(Sequence[int]):
    """Items that count how often they are looked at."""

    def __init__(self, items: Sequence[int]) -> None:
        self.items = list(items)
        self.looks = 0

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        self.looks += 1
        return self.items[place]


def shortened(size: int) -> tuple[list[int], list[int]]:
    """Equal items: wherever a stretch is begun, it goes on to the end."""
    return [1] * size, [2, *[1] * (size - MOST_CHANGES + 20)]


def by_lot(size: int) -> tuple[list[int], list[int]]:
    draw = random.Random(0)
    return [draw.randrange(2) for _ in range(size)], [draw.randrange(2) for _ in range(size)]


@pytest.mark.parametrize("make", [shortened, by_lot])
def test_the_work_is_bounded_by_the_length_of_the_prompts(make: object) -> None:
    for size in (1_000, 2_000):
        old, new = make(size)  # type: ignore[operator]
        looked_at = Counting(old)
        common(looked_at, new)
        assert looked_at.looks <= (2 * MOST_CHANGES + 1) * (size + MOST_CHANGES)


def test_as_much_is_kept_as_can_be() -> None:
    draw = random.Random(0)
    for _ in range(500):
        old = [draw.randrange(3) for _ in range(draw.randrange(10))]
        new = [draw.randrange(3) for _ in range(draw.randrange(10))]
        pairs = common(old, new)
        assert pairs == sorted(pairs)
        assert all(old[i] == new[j] for i, j in pairs)
        assert len(pairs) == longest(old, new)


def longest(old: Sequence[int], new: Sequence[int]) -> int:
    lengths = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, one in enumerate(old):
        for j, other in enumerate(new):
            kept = lengths[i][j] + 1 if one == other else 0
            lengths[i + 1][j + 1] = max(kept, lengths[i][j + 1], lengths[i + 1][j])
    return lengths[-1][-1]


def test_nothing_of_either_prompt_is_lost() -> None:
    draw = random.Random(0)
    for _ in range(500):
        old, new = ("".join(draw.choice("ab \n") for _ in range(draw.randrange(30))) for _ in "12")
        changes = prompt_changes(old, new)
        assert "".join(change.words for change in changes if change.kind != "added") == old
        assert "".join(change.words for change in changes if change.kind != "removed") == new


def test_a_prompt_written_anew_is_shown_whole_between_what_stayed() -> None:
    old = " ".join(["a red cat", *(f"old{n} both" for n in range(100)), "on a mat"])
    new = " ".join(["a red cat", *(f"new{n} both" for n in range(100)), "on a mat"])
    kinds = [change.kind for change in prompt_changes(old, new)]
    assert kinds == ["kept", "removed", "added", "kept"]
    assert prompt_changes(old, new)[0].words == "a red cat "
