"""Goals for the gripper on a given bench, "Put the red block on the blue one", and the sub-tasks to them.

Every sub-task picks one block up or puts one down, so that an image of it is a state that a robot can reach
and a camera can check. `topics/robot.py` tells stories about a gripper; here the image is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from interleave_mini.bench.tasks import Step
from interleave_mini.language.patterns import GAP, Pattern, filled
from interleave_mini.language.words import CELL_OF, POSITIONS, neighbour, sentence
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS
from interleave_mini.world.operations import Impossible, Operation, Pick, Place
from interleave_mini.world.scene import CELLS, GRID, Gripper, Scene, Size, Thing
from miniature.grammar.gaps import AColour, AWord, Gap

Values = Mapping[str, Any]
Moves = list[tuple[int, int]]
"""Moves of blocks, from cell to cell."""
_TRIES = 200
_BELOW_THE_GRIPPER = tuple(range(GRID, CELLS))
_ASIDE = (4, 7, 3, 5, 6, 8)
"""Cells for a block while two swap places, in order of preference."""
BOTTOM_ROW = (6, 7, 8)
COLUMNS = {
    **dict.fromkeys(("the left side", "the left"), 0),
    **dict.fromkeys(("the middle", "the centre"), 1),
    **dict.fromkeys(("the right side", "the right"), 2),
}
SIDES = {
    **dict.fromkeys(("on", "on top of", "onto", "above"), (-1, 0)),
    **dict.fromkeys(("to the left of", "left of", "on the left of"), (0, -1)),
    **dict.fromkeys(("to the right of", "right of", "on the right of"), (0, 1)),
    **dict.fromkeys(("in front of", "below", "under"), (1, 0)),
}
PLACES = {words: cell for words, cell in CELL_OF.items() if cell in _BELOW_THE_GRIPPER}


@dataclass(frozen=True)
class Goal:
    """One kind of goal: its wordings, and the operations that reach it from a scene."""

    name: str
    gaps: Mapping[str, Gap]
    plot: Callable[[Scene, Values], list[Operation]]
    """Raises `Impossible` if the goal makes no sense or is already reached."""
    templates: tuple[str, ...]
    holding: bool = False
    """Whether the gripper holds a block at the start."""

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        regexes = {name: gap.regex for name, gap in self.gaps.items()}
        return tuple(Pattern(text.rstrip(".!?"), regexes) for text in self.templates)

    def read(self, text: str, scene: Scene) -> tuple[Step, ...] | None:
        """Return the steps to this goal; `None` if the text is another goal or impossible here."""
        for pattern in self.patterns:
            if (words := pattern.read(text)) is None:
                continue
            values = {name: self.gaps[name].read(said) for name, said in words.items()}
            try:
                return steps_of(self.plot(scene, values), scene)
            except Impossible:
                continue
        return None


@dataclass(frozen=True)
class GoalRequest:
    """A goal in words, with the scene it is about and its steps."""

    text: str
    template: str
    goal: Goal
    scene: Scene
    steps: tuple[Step, ...]


def sample_goal(rng: Random) -> GoalRequest:
    """Return a random goal about a random bench."""
    while True:
        goal = rng.choice(GOALS)
        for _ in range(_TRIES):
            scene, template = random_bench(rng, holding=goal.holding), rng.choice(goal.templates)
            on_it = [thing.colour for thing in scene.things.values() if thing.kind == "block"]
            values = {
                name: rng.choice(on_it) if goal.gaps[name] is COLOUR else goal.gaps[name].sample(rng)
                for name in GAP.findall(template)
            }
            words = {name: goal.gaps[name].write(value, rng) for name, value in values.items()}
            text = sentence(filled(template, words))
            steps = read_goal(text.rstrip(".!?"), scene)
            if steps:
                return GoalRequest(text, template, goal, scene, steps)


def read_goal(text: str, scene: Scene) -> tuple[Step, ...] | None:
    """Return the steps of a normalised goal in a scene with a gripper; `None` if no goal matches."""
    if scene.gripper is None:
        return None
    for goal in GOALS:
        if steps := goal.read(text, scene):
            return steps
    return None


def random_bench(rng: Random, *, holding: bool = False) -> Scene:
    """Return one to four small blocks in different colours below the gripper, sometimes with more."""
    colours = rng.sample(list(COLOURS), rng.randint(2, 4))
    held = colours.pop() if holding else None
    cells = rng.sample(_BELOW_THE_GRIPPER, len(colours) + 1)
    things = {
        cell: Thing("block", colour, Size.SMALL) for cell, colour in zip(cells[1:], colours, strict=True)
    }
    if rng.random() < 0.2:
        kind = KINDS[rng.choice([name for name in KINDS if name != "block"])]
        things[cells[0]] = Thing(kind.name, kind.colour, Size.LARGE, kind.usual)
    background = "workbench" if rng.random() < 0.8 else rng.choice(BACKGROUNDS)
    return Scene.of(background, things, Gripper(rng.randrange(GRID), held))


def steps_of(operations: Sequence[Operation], scene: Scene) -> tuple[Step, ...]:
    """Return a step for each operation of the gripper; raise `Impossible` if there is none or one fails."""
    steps: list[Step] = []
    for operation in operations:
        steps.append(sub_task(operation, scene))
        scene = steps[-1].scene
    if not steps:
        raise Impossible("there is nothing left to do")
    return tuple(steps)


def sub_task(operation: Operation, before: Scene) -> Step:
    """Return the step of one sub-task: its words and the scene after it."""
    after = operation.apply(before)
    if isinstance(operation, Pick) and after.gripper is not None:
        colour = after.gripper.holds or ""
        return _step(f"{colour} lifted", f"the gripper picks up the {colour} block", after, operation, before)
    if isinstance(operation, Place) and before.gripper is not None:
        colour, where = before.gripper.holds or "", POSITIONS[operation.cell][0]
        return _step(f"{colour} placed", f"it puts the {colour} block down {where}", after, operation, before)
    raise Impossible("the gripper picks up blocks and puts them down")


def _step(name: str, caption: str, after: Scene, operation: Operation, before: Scene) -> Step:
    return Step(name.capitalize(), sentence(caption), after, (operation,), before)


# What goals lead to


def _block(scene: Scene, colour: str) -> int:
    """Return the cell of the only small block of a colour."""
    cells = [cell for cell, thing in scene.things.items() if thing == Thing("block", colour, Size.SMALL)]
    if len(cells) != 1:
        raise Impossible(f"there is no {colour} block, or more than one")
    return cells[0]


def _carry(scene: Scene, moves: Moves) -> list[Operation]:
    """Return pick and place for every block that is not in its place."""
    if scene.gripper is None or scene.gripper.holds is not None:
        raise Impossible("the gripper has to put down what it holds first")
    operations: list[Operation] = []
    for start, end in moves:
        if start == end:
            continue
        for operation in (Pick(start), Place(end)):
            scene = operation.apply(scene)
            operations.append(operation)
    return operations


def _to_a_place(scene: Scene, values: Values) -> list[Operation]:
    return _carry(scene, [(_block(scene, values["block"]), values["where"])])


def _beside(scene: Scene, values: Values) -> list[Operation]:
    if values["block"] == values["other"]:
        raise Impossible("a block cannot be put beside itself")
    return _carry(scene, [(_block(scene, values["block"]), _next_to(scene, values["other"], values["side"]))])


def _onto(scene: Scene, values: Values) -> list[Operation]:
    return _beside(scene, {**values, "side": (-1, 0)})


def _next_to(scene: Scene, colour: str, side: tuple[int, int]) -> int:
    cell = neighbour(_block(scene, colour), side)
    if cell is None or cell < GRID:
        raise Impossible("there is no room beside it")
    return cell


def _swap(scene: Scene, values: Values) -> list[Operation]:
    first, second = _block(scene, values["first"]), _block(scene, values["second"])
    if first == second:
        raise Impossible("a block cannot change places with itself")
    aside = next((cell for cell in _ASIDE if scene.is_free(cell)), None)
    if aside is None:
        raise Impossible("there is no room to put a block aside")
    return _carry(scene, [(first, aside), (second, first), (aside, second)])


def _two_places(scene: Scene, values: Values) -> list[Operation]:
    first, second = _block(scene, values["first"]), _block(scene, values["second"])
    if first == second or values["where"] == values["place"]:
        raise Impossible("two blocks and two places are needed")
    return _carry(scene, [(first, values["where"]), (second, values["place"])])


def _line_up(scene: Scene, values: Values) -> list[Operation]:
    colours = [values["first"], values["second"], values["third"]]
    if len(set(colours)) < len(colours):
        raise Impossible("the blocks need different colours")
    cells = [_block(scene, colour) for colour in colours]
    return _carry(scene, list(zip(cells, BOTTOM_ROW, strict=True)))


def _clear(scene: Scene, values: Values) -> list[Operation]:
    column = values["column"]
    blocks = [cell for cell in scene.things if cell % GRID == column]
    free = [cell for cell in _BELOW_THE_GRIPPER if cell % GRID != column and scene.is_free(cell)]
    if len(free) < len(blocks):
        raise Impossible("there is no room on the other sides")
    return _carry(scene, list(zip(blocks, free, strict=False)))


def _pick(scene: Scene, values: Values) -> list[Operation]:
    return [Pick(_block(scene, values["block"]))]


def _put_down(scene: Scene, values: Values) -> list[Operation]:
    return [Place(values["where"])]


COLOUR, PLACE = AColour(), AWord(PLACES)
TWO: dict[str, Gap] = {"first": COLOUR, "second": COLOUR}

GOALS: tuple[Goal, ...] = (
    Goal(
        "to a place",
        {"block": COLOUR, "where": PLACE},
        _to_a_place,
        (
            "Put the {block} block {where}.",
            "Take the {block} block and put it {where}.",
            "Place the {block} block {where}.",
            "The {block} block belongs {where}.",
            "I want the {block} block {where}.",
            "Robot, put the {block} block {where}.",
            "Let the gripper put the {block} block {where}.",
        ),
    ),
    Goal(
        "beside another",
        {"block": COLOUR, "side": AWord(SIDES), "other": COLOUR},
        _beside,
        (
            "Put the {block} block {side} the {other} one.",
            "Put the {block} block {side} the {other} block.",
            "Place the {block} block {side} the {other} one.",
            "The {block} block goes {side} the {other} block.",
            "Take the {block} block and put it {side} the {other} one.",
            "Robot, put the {block} block {side} the {other} block.",
            "Let the gripper put the {block} block {side} the {other} one.",
        ),
    ),
    Goal(
        "stacking",
        {"block": COLOUR, "other": COLOUR},
        _onto,
        (
            "Stack the {block} block on the {other} one.",
            "Stack the {block} block on the {other} block.",
            "Stack {block} on {other}.",
            "Stack two blocks, {other} below and {block} above.",
            "Let the gripper stack the {block} block on the {other} block.",
        ),
    ),
    Goal(
        "swapping",
        TWO,
        _swap,
        (
            "Swap the {first} block and the {second} block.",
            "Swap the {first} and the {second} block.",
            "Make the {first} block and the {second} block change places.",
            "Robot, swap the {first} block and the {second} one.",
            "Let the gripper swap the {first} and the {second} block.",
        ),
    ),
    Goal(
        "two places",
        {**TWO, "where": PLACE, "place": PLACE},
        _two_places,
        (
            "Put the {first} block {where} and the {second} block {place}.",
            "First put the {first} block {where}, then the {second} block {place}.",
            "Put the {first} block {where}, then put the {second} one {place}.",
            "Place the {first} block {where} and the {second} one {place}.",
        ),
    ),
    Goal(
        "lining up",
        {**TWO, "third": COLOUR},
        _line_up,
        (
            "Line up the {first}, the {second} and the {third} block in the bottom row.",
            "Put the {first}, the {second} and the {third} block in a row at the bottom.",
            "Line up three blocks from left to right at the bottom: {first}, {second}, {third}.",
            "Robot, line up the {first}, the {second} and the {third} block.",
        ),
    ),
    Goal(
        "clearing a side",
        {"column": AWord(COLUMNS)},
        _clear,
        (
            "Clear {column} of the workbench.",
            "Clear {column}.",
            "Take the blocks away from {column}.",
            "Robot, clear {column}.",
        ),
    ),
    Goal(
        "picking up",
        {"block": COLOUR},
        _pick,
        (
            "Pick up the {block} block.",
            "Robot, pick up the {block} block.",
            "Lift the {block} block.",
            "Take the {block} block with the gripper.",
        ),
    ),
    Goal(
        "putting down",
        {"where": PLACE},
        _put_down,
        (
            "Put the block down {where}.",
            "Put it down {where}.",
            "Put down the block {where}.",
            "Robot, put the block down {where}.",
        ),
        holding=True,
    ),
)
