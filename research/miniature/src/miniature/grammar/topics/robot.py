"""A robot's gripper on the workbench: it picks blocks up and puts them down elsewhere."""

from __future__ import annotations

from interleave_mini.language.words import POSITIONS, a, listed, to_position, with_article
from interleave_mini.world.operations import Impossible, Pick, Place
from interleave_mini.world.scene import GRID, Gripper, Size, Thing
from miniature.grammar.gaps import AColour, AThing, AWord
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic

LEFT, CENTRE, RIGHT = range(GRID)
SPOTS = {
    "the left": 3,
    "the left side": 3,
    "the middle left": 3,
    "the middle": 4,
    "the centre": 4,
    "the right": 5,
    "the right side": 5,
    "the middle right": 5,
    "the bottom left": 6,
    "the bottom left corner": 6,
    "the bottom": 7,
    "the bottom middle": 7,
    "the bottom right": 8,
    "the bottom right corner": 8,
}
ON_TOP = 1
"""The cell above the other block, which is in the bottom row, as the gripper is in the top row."""
BESIDE_THE_MIDDLE = {
    "left of": 3,
    "to the left of": 3,
    "on the left of": 3,
    "right of": 5,
    "to the right of": 5,
    "on the right of": 5,
    "next to": 5,
    "beside": 5,
    "below": 7,
    "in front of": 7,
    "on top of": ON_TOP,
    "onto": ON_TOP,
    "on": ON_TOP,
}
RELATION_TO_THE_MIDDLE = {3: "to the left of", 5: "to the right of", 7: "in front of", ON_TOP: "on top of"}


def _bench(blocks: dict[int, str], caption: str, others: dict[int, Thing] | None = None) -> Story:
    """Return a bench with blocks of these colours and the empty gripper above the middle."""
    things = {cell: Thing("block", colour, Size.SMALL) for cell, colour in blocks.items()}
    return Story("workbench", things | (others or {}), name="Start", caption=caption, gripper=Gripper(CENTRE))


def _picked(story: Story, cell: int) -> Story:
    colour = _colour_at(story, cell)
    return story.then(
        Pick(cell),
        name=f"{colour.capitalize()} lifted",
        caption=f"the gripper picks up the {colour} block",
    )


def _placed(story: Story, cell: int, where: str = "") -> Story:
    colour = _colour_held(story)
    return story.then(
        Place(cell),
        name=f"{colour.capitalize()} placed",
        caption=f"it puts the {colour} block down {where or POSITIONS[cell][0]}",
    )


def _carried(story: Story, start: int, end: int, *, name: str) -> Story:
    colour, goal = _colour_at(story, start), to_position(POSITIONS[end][0])
    return story.then(
        Pick(start), Place(end), name=name, caption=f"the gripper carries the {colour} block {goal}"
    )


def _one_block(colour: str, start: int, end: int) -> Story:
    if start == end:
        raise Impossible("the block is there already")
    story = _bench({start: colour}, f"{_a_block(colour)} lies {POSITIONS[start][0]} of the workbench")
    return _placed(_picked(story, start), end)


def _two_blocks(first: str, second: str, way: tuple[int, int]) -> Story:
    _different(first, second)
    start, end = way
    story = _bench(
        {GRID + start: first, 2 * GRID + start: second},
        f"{_a_block(first)} and {_a_block(second)} lie {POSITIONS[GRID + start][0]}",
    )
    for row in (GRID, 2 * GRID):
        _placed(_picked(story, row + start), row + end)
    return story


def _beside(block: str, other: str, cell: int) -> Story:
    _different(block, other)
    if cell == ON_TOP:
        lying = f"{_a_block(other)} lies at the bottom, {_a_block(block)} to its left"
        return _placed(_picked(_bench({6: block, 7: other}, lying), 6), 4, f"on top of the {other} block")
    story = _bench(
        {6: block, 4: other}, f"{_a_block(other)} lies in the middle, {_a_block(block)} at the bottom left"
    )
    return _placed(_picked(story, 6), cell, f"{RELATION_TO_THE_MIDDLE[cell]} the {other} block")


def _stacking(block: str, other: str) -> Story:
    return _beside(block, other, ON_TOP)


def _clearing(first: str, second: str, side: int) -> Story:
    _different(first, second)
    story = _bench(
        {4: first, 7: second}, f"{_a_block(first)} and {_a_block(second)} are in the way in the middle"
    )
    _carried(story, 4, GRID + side, name="First block")
    return _carried(story, 7, 2 * GRID + side, name="All clear")


def _swapping(first: str, second: str) -> Story:
    _different(first, second)
    story = _bench(
        {3: first, 5: second}, f"{_a_block(first)} lies on the left, {_a_block(second)} on the right"
    )
    _carried(story, 3, 7, name="Make room")
    _carried(story, 5, 3, name="Right to left")
    return _carried(story, 7, 5, name="Swapped")


def _lining_up(first: str, second: str, third: str) -> Story:
    colours = (first, second, third)
    _different(*colours)
    story = _bench(
        dict(zip((3, 8, 4), colours, strict=True)),
        f"{listed([_a_block(colour) for colour in colours])} lie about",
    )
    story.then(
        Pick(3), Place(6), name="The first", caption=f"the {first} block starts the row at the bottom left"
    )
    story.then(Pick(8), Place(7), name="The second", caption=f"the {second} block goes next to it")
    return story.then(
        Pick(4), Place(8), name="In line", caption=f"the {third} block completes the bottom row"
    )


def _sorting(left: str, right: str) -> Story:
    _different(left, right)
    story = _bench(
        {3: left, 6: right, 5: right, 8: left}, f"{left} and {right} blocks lie mixed up on both sides"
    )
    _carried(story, 6, 7, name="Aside")
    _carried(story, 8, 6, name=f"{left.capitalize()} left")
    return _carried(story, 7, 8, name=f"{right.capitalize()} right")


def _handing_over(colour: str, friend: Thing) -> Story:
    story = _bench(
        {3: colour}, f"{_a_block(colour)} lies on the left, and {a(friend)} waits for it", {5: friend}
    )
    return _placed(_picked(story, 3), 4, f"right next to the {friend.noun}")


def _a_block(colour: str) -> str:
    return with_article(f"{colour} block")


def _colour_at(story: Story, cell: int) -> str:
    block = story.scene.cells[cell]
    if block is None:
        raise Impossible("no block lies there")
    return block.colour


def _colour_held(story: Story) -> str:
    hand = story.scene.gripper
    if hand is None or hand.holds is None:
        raise Impossible("the gripper holds no block")
    return hand.holds


def _different(*colours: str) -> None:
    if len(set(colours)) < len(colours):
        raise Impossible("the blocks need different colours")


COLOUR, SPOT = AColour(), AWord(SPOTS)
TWO = {"first": COLOUR, "second": COLOUR}

TOPICS: tuple[Topic, ...] = (
    Topic(
        "pick and place",
        {"colour": COLOUR, "start": SPOT, "end": SPOT},
        _one_block,
        (
            "A robot gripper moves the {colour} block from {start} to {end}.",
            "Use the gripper to take the {colour} block from {start} of the workbench to {end}.",
            "In {n} pictures: the robot takes the {colour} block from {start} to {end}.",
            "I want to see the gripper pick up the {colour} block at {start} and put it down at {end}.",
            "How does the robot bring the {colour} block from {start} to {end}?",
            "Show how the gripper moves the {colour} block from {start} and puts it down at {end}.",
        ),
    ),
    Topic(
        "moving two blocks",
        {**TWO, "way": AWord({"from left to right": (LEFT, RIGHT), "from right to left": (RIGHT, LEFT)})},
        _two_blocks,
        (
            "The robot carries the {first} block and then the {second} block {way}.",
            "Show in {n} steps how the gripper moves two blocks {way}, first {first}, then {second}.",
            "How does the robot take the {first} block and then the {second} block {way}?",
            "I want to see the gripper carry two blocks {way}: {first} first, {second} next.",
            "First the {first} block, then the {second} block: the robot moves both {way}.",
            "Show how the robot carries two blocks {way}, first the {first} one, then the {second} one.",
        ),
    ),
    Topic(
        "placing beside",
        {"block": COLOUR, "other": COLOUR, "cell": AWord(BESIDE_THE_MIDDLE)},
        _beside,
        (
            "Let the gripper put the {block} block {cell} the {other} block in the middle.",
            "The robot takes the {block} block from the bottom left and places it {cell} the {other} one.",
            "How does the gripper put the {block} block {cell} the {other} block?",
            "I want to see the robot place the {block} block {cell} the {other} block.",
            "In {n} steps the robot picks up the {block} block and puts it down {cell} the {other} one.",
            "Show how the gripper places the {block} block {cell} the {other} block in the middle.",
        ),
    ),
    Topic(
        "stacking two blocks",
        {"block": COLOUR, "other": COLOUR},
        _stacking,
        (
            "Stack the {block} block on the {other} block with the gripper.",
            "The robot stacks the {block} block on the {other} one.",
            "How does the gripper stack the {block} block on the {other} block?",
            "I want to see the robot stack two blocks, {other} below and {block} above.",
            "In {n} steps the robot stacks {block} on {other}.",
        ),
    ),
    Topic(
        "clearing the middle",
        {**TWO, "side": AWord({"to the left": LEFT, "to the right": RIGHT})},
        _clearing,
        (
            "Clear the middle of the workbench: the robot takes the {first} and the {second} block {side}.",
            "The {first} block and the {second} block are in the way. The gripper takes them away {side}.",
            "How does the robot clear the middle? It takes the {first} block and the {second} block {side}.",
            "I want to see the gripper carry the {first} and the {second} block away {side}.",
            "Make room in the middle: the {first} block and the {second} block go {side}, one by one.",
            "Clear the middle: show how the gripper takes the {first} and the {second} block {side}.",
        ),
    ),
    Topic(
        "swapping blocks",
        TWO,
        _swapping,
        (
            "The robot swaps the {first} block on the left and the {second} block on the right.",
            "How does a robot make the {first} block and the {second} block change places? Show {n} steps.",
            "Show in {n} steps how the gripper swaps the {first} block and the {second} block.",
            "I want to see the robot make the {first} and the {second} block change places.",
            "The {first} block is on the left, the {second} block on the right. Robot, swap them.",
            "How does the gripper swap the {first} block on the left and the {second} block on the right?",
        ),
    ),
    Topic(
        "lining up blocks",
        {**TWO, "third": COLOUR},
        _lining_up,
        (
            "The gripper lines up the {first}, the {second} and the {third} block in the bottom row.",
            "Robot, tidy up: {first}, {second} and {third}, from left to right in the bottom row.",
            "Show how the robot puts the {first}, the {second} and the {third} block in a row.",
            "I want to see {first}, {second} and {third} blocks lined up by the gripper.",
            "How does the gripper line up three blocks in the bottom row: {first}, {second}, {third}?",
            "The robot lines up three blocks from left to right: {first}, {second} and {third}.",
        ),
    ),
    Topic(
        "sorting blocks",
        {"left": COLOUR, "right": COLOUR},
        _sorting,
        (
            "The robot sorts four blocks: {left} ones to the left, {right} ones to the right.",
            "Sort the blocks with the gripper in {n} steps, {left} on the left and {right} on the right.",
            "Show how the gripper sorts blocks: {left} to the left and {right} to the right.",
            "How does the robot sort mixed blocks, {left} on the left, {right} on the right?",
            "I want to see the robot bring {left} blocks to the left and {right} blocks to the right.",
            "Robot, sort four blocks: bring {left} ones to the left and {right} ones to the right.",
        ),
    ),
    Topic(
        "handing over",
        {"colour": COLOUR, "friend": AThing(("cat", "dog", "rabbit", "duck", "hen", "frog", "teddy"))},
        _handing_over,
        (
            "The robot hands the {colour} block to {friend} that waits on the right.",
            "Show how the gripper gives the {colour} block to {friend}.",
            "How does {friend} get the {colour} block from the robot?",
            "I want to see the gripper hand the {colour} block to {friend}.",
            "{friend} waits on the right for the {colour} block. The robot brings it in {n} pictures.",
            "Show how the robot gives the {colour} block to {friend} that waits on the right.",
        ),
    ),
)
