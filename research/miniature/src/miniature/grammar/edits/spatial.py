"""Where things end up."""

from __future__ import annotations

from interleave_mini.world.operations import Add, Impossible, Move, Operation, Swap
from interleave_mini.world.scene import CELLS, GRID, Scene
from miniature.grammar.edits.edit import Consequence, Edit, Given


def _opposite_side(scene: Scene, given: Given) -> tuple[Operation, ...]:
    row, column = divmod(given.ref, GRID)
    return (Move(given.ref, row * GRID + GRID - 1 - column),)


def _opposite_corner(scene: Scene, given: Given) -> tuple[Operation, ...]:
    if given.ref not in (0, 2, 6, 8):
        raise Impossible("it is not in a corner")
    return (Move(given.ref, CELLS - 1 - given.ref),)


def _as_far_as(direction: str) -> Consequence:
    def happens(scene: Scene, given: Given) -> tuple[Operation, ...]:
        row, column = divmod(given.ref, GRID)
        ends = {
            "right": row * GRID + GRID - 1,
            "left": row * GRID,
            "top": column,
            "bottom": 2 * GRID + column,
        }
        return (Move(given.ref, ends[direction]),)

    return happens


def _between(scene: Scene, given: Given) -> tuple[Operation, ...]:
    (row, column), (other_row, other_column) = divmod(given.ref, GRID), divmod(given.other, GRID)
    in_line = (row == other_row and abs(column - other_column) == 2) or (
        column == other_column and abs(row - other_row) == 2
    )
    if not in_line or given.thing is None:
        raise Impossible("there is no place between them")
    return (Add(given.thing, (given.ref + given.other) // 2),)


def _exchange(scene: Scene, given: Given) -> tuple[Operation, ...]:
    return (Swap(given.ref, given.other),)


def _mirrored(scene: Scene, given: Given) -> tuple[Operation, ...]:
    operations: list[Operation] = []
    for row in range(GRID):
        left, right = row * GRID, row * GRID + GRID - 1
        first, second = scene.cells[left], scene.cells[right]
        if first == second:
            continue
        if first and second:
            operations.append(Swap(left, right))
        else:
            operations.append(Move(left, right) if first else Move(right, left))
    return tuple(operations)


EDITS: tuple[Edit, ...] = (
    Edit(
        "spatial",
        "the other side",
        _opposite_side,
        (
            "Move {ref} to the opposite side of its row.",
            "Where would {ref} be on the other side of its row?",
            "Let {ref} change to the other side of its row.",
            "On which side is {ref} not? Move it there.",
            "Show {ref} on the opposite side of its row.",
        ),
    ),
    Edit(
        "spatial",
        "the far corner",
        _opposite_corner,
        (
            "Bring {ref} to the corner diagonally across.",
            "Move {ref} to the opposite corner.",
            "Where would {ref} be in the corner diagonally across?",
            "Show {ref} in the corner that is farthest away.",
            "Show {ref} in the opposite corner, diagonally across.",
        ),
    ),
    Edit(
        "spatial",
        "far right",
        _as_far_as("right"),
        (
            "Push {ref} as far to the right as its row goes.",
            "Where would {ref} be at the right end of its row?",
            "Let {ref} go to the right until its row ends.",
            "Show {ref} as far to the right as it goes.",
            "Bring {ref} to the right end of its row.",
        ),
    ),
    Edit(
        "spatial",
        "far left",
        _as_far_as("left"),
        (
            "Push {ref} as far to the left as its row goes.",
            "Where would {ref} be at the left end of its row?",
            "Let {ref} go to the left until its row ends.",
            "Show {ref} as far to the left as it goes.",
            "Bring {ref} to the left end of its row.",
        ),
    ),
    Edit(
        "spatial",
        "straight up",
        _as_far_as("top"),
        (
            "Lift {ref} straight up as far as it goes.",
            "Where would {ref} be at the top of its column?",
            "Let {ref} go up until its column ends.",
            "Show {ref} as far up as it goes.",
            "Bring {ref} straight up to the top of its column.",
        ),
    ),
    Edit(
        "spatial",
        "straight down",
        _as_far_as("bottom"),
        (
            "Let {ref} drop straight down to the ground.",
            "Where would {ref} be at the bottom of its column?",
            "Let {ref} go down until its column ends.",
            "Show {ref} as far down as it goes.",
            "Bring {ref} straight down to the bottom of its column.",
        ),
    ),
    Edit(
        "spatial",
        "in between",
        _between,
        (
            "Fill the empty place between {ref} and {other} with {thing}.",
            "Put {thing} in the empty place between {ref} and {other}.",
            "What would {thing} look like between {ref} and {other}?",
            "There is an empty place between {ref} and {other}. Show {thing} there.",
            "Show {thing} in the empty place between {ref} and {other}.",
        ),
    ),
    Edit(
        "spatial",
        "an exchange",
        _exchange,
        (
            "Put {ref} where {other} is, and the other way round.",
            "Show the picture after {ref} has taken the place of {other}, and the other way round.",
            "Where {ref} is, put {other}, and the other way round.",
            "What does it look like when {ref} and {other} have changed places?",
            "Show {ref} where {other} is, and the other way round.",
        ),
    ),
    Edit(
        "spatial",
        "in the mirror",
        _mirrored,
        (
            "Show the picture in a mirror, left for right.",
            "Flip where things stand from left to right.",
            "What would this picture look like in a mirror?",
            "Let left and right change places everywhere.",
            "Show the picture in a mirror: what is left goes to the right.",
        ),
    ),
)
