"""Operations ⇄ sentences: several wordings for each operation, written and parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from interleave import InputError
from interleave_mini.language.patterns import NotUnderstood, Pattern, normalised
from interleave_mini.language.references import (
    REFERENCE,
    THING,
    TO,
    WHERE,
    Style,
    find,
    find_position,
    thing_described,
)
from interleave_mini.language.words import (
    ALL_BACKGROUND_OF_NOUN,
    DESCRIBED_MANY,
    DIRECTIONS,
    NUMBERS,
    ROWS,
    UNCOUNTABLE,
    a,
    bare_noun,
    counted,
    described_many,
    neighbour,
    one_of,
    sentence,
    to_position,
)
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import (
    Add,
    AlreadySo,
    ChangeBackground,
    ChangeState,
    Move,
    Operation,
    Pick,
    Place,
    Put,
    PutNew,
    Recolour,
    Remove,
    Replace,
    Resize,
    Swap,
    daybreak,
    nightfall,
    thing_at,
)
from interleave_mini.world.scene import GRID, Relation, Scene, Size, Thing
from interleave_mini.world.wider import ADJECTIVES, ALL_COLOURS, DAY_OF, NIGHT_OF

GAPS = {
    "thing": THING,
    "ref": REFERENCE,
    "other": REFERENCE,
    "where": WHERE,
    "to": TO,
    "colour": one_of(ALL_COLOURS),
    "count": one_of(NUMBERS[2 : GRID + 1]),
    "things": DESCRIBED_MANY,
    "row": one_of(ROWS),
    "place": one_of(ALL_BACKGROUND_OF_NOUN),
    "direction": one_of(DIRECTIONS),
    "touching": one_of(("on", "in", "under", "onto", "into")),
    "state": one_of({word for words in ADJECTIVES.values() for word in words if word}),
}
Words = dict[str, str]


@dataclass(frozen=True)
class Speech:
    """The wordings of one operation: the first pattern asks for it, the second states that it happens."""

    patterns: tuple[Pattern, ...]
    write: Callable[[Any, Scene, Style], Words]
    read: Callable[[Words, Scene], Operation]


def _speech(write: Callable[..., Words], read: Callable[[Words, Scene], Operation], *texts: str) -> Speech:
    return Speech(tuple(Pattern(text, GAPS) for text in texts), write, read)


def _resizing(size: Size, *texts: str) -> Speech:
    return _speech(
        lambda done, scene, style: {"ref": style.refer(scene, done.cell)},
        lambda words, scene: Resize(find(scene, words["ref"]), size),
        *texts,
    )


def _replacement(words: Words, scene: Scene) -> Operation:
    """ "Turn it into …": a new state where the kind stays the same, else another thing in its place."""
    cell = find(scene, words["ref"])
    old = thing_at(scene, cell)
    new = thing_described(words["thing"]).thing(like=old)
    if (new.kind, new.colour, new.size) == (old.kind, old.colour, old.size):
        return ChangeState(cell, new.state)
    return Replace(cell, new)


def _write_replacement(done: Replace, scene: Scene, style: Style) -> Words:
    old = thing_at(scene, done.cell)
    return {"ref": style.refer(scene, done.cell), "thing": style.thing(done.thing, like=old)}


def _write_change(done: ChangeState, scene: Scene, style: Style) -> Words:
    old = thing_at(scene, done.cell)
    new = Thing(old.kind, old.colour, old.size, done.state)
    return {"ref": style.refer(scene, done.cell), "thing": style.thing(new, like=old)}


def _write_move(done: Move, scene: Scene, style: Style) -> Words:
    left_behind = scene.with_spot(done.cell, None)  # "move the cat left of the cat" would say nothing
    where = style.where(left_behind, done.to)
    return {"ref": style.refer(scene, done.cell), "to": to_position(where)}


def _read_step(words: Words, scene: Scene) -> Operation:
    cell = find(scene, words["ref"])
    to = neighbour(cell, DIRECTIONS[words["direction"].lower()])
    if to is None:
        raise NotUnderstood(f"there is no room to go {words['direction']}")
    return Move(cell, to)


def _touching(words: Words) -> Relation:
    return Relation(words["touching"].lower().removesuffix("to")) if "touching" in words else Relation.HELD


def _write_put(done: Put | PutNew, scene: Scene, style: Style) -> Words:
    thing = a(done.thing, size=False) if isinstance(done, PutNew) else style.refer(scene, done.cell)
    gap = "thing" if isinstance(done, PutNew) else "ref"
    return {gap: thing, "touching": done.relation.value, "other": style.refer(scene, done.to)}


def _read_put(words: Words, scene: Scene) -> Operation:
    return Put(find(scene, words["ref"]), _touching(words), find(scene, words["other"]))


def _read_put_new(words: Words, scene: Scene) -> Operation:
    return PutNew(thing_described(words["thing"]).thing(), _touching(words), find(scene, words["other"]))


def _read_state(words: Words, scene: Scene) -> Operation:
    """ "Make the red door open"."""
    cell = find(scene, words["ref"])
    thing, state = thing_at(scene, cell), words["state"].lower()
    if state not in ADJECTIVES[thing.kind]:
        raise NotUnderstood(f"the {thing.noun} cannot be {state}")
    return ChangeState(cell, ADJECTIVES[thing.kind].index(state))


def _write_state(done: ChangeState, scene: Scene, style: Style) -> Words:
    kind = thing_at(scene, done.cell).kind
    return {"ref": style.refer(scene, done.cell), "state": ADJECTIVES[kind][done.state]}


def _is_adjective(done: ChangeState, scene: Scene) -> bool:
    """Whether a state is one of the wider world and said with an adjective: "wet"."""
    kind = thing_at(scene, done.cell).kind
    is_wider = kind not in KINDS or done.state >= len(KINDS[kind].states)
    return is_wider and bool(ADJECTIVES[kind][done.state])


def _time_of_day(turn: Callable[[Scene], ChangeBackground], *texts: str) -> Speech:
    return _speech(lambda done, scene, style: {}, lambda words, scene: turn(scene), *texts)


def _read_put_down(words: Words, scene: Scene) -> Operation:
    if scene.gripper is None or scene.gripper.holds != words["colour"].lower():
        raise NotUnderstood(f"the gripper holds no {words['colour']} block")
    return Place(find_position(scene, words["where"]))


SPEECH: dict[str, Speech] = {
    "add": _speech(
        lambda done, scene, style: {
            "thing": style.thing(done.thing),
            "where": style.where(scene, done.cell),
        },
        lambda words, scene: Add(
            thing_described(words["thing"]).thing(), find_position(scene, words["where"])
        ),
        "Add {thing} {where}",
        "{thing} appears {where}",
        "Draw {thing} {where}",
        "Let {thing} appear {where}",
        "Now there is also {thing} {where}",
        "Show {thing} {where}",
    ),
    "remove": _speech(
        lambda done, scene, style: {"ref": style.refer(scene, done.cell)},
        lambda words, scene: Remove(find(scene, words["ref"])),
        "Remove {ref}",
        "{ref} disappears",
        "Take away {ref}",
        "Erase {ref}",
        "{ref} goes away",
        "{ref} is gone",
    ),
    "recolour": _speech(
        lambda done, scene, style: {"ref": style.refer(scene, done.cell), "colour": done.colour},
        lambda words, scene: Recolour(find(scene, words["ref"]), words["colour"].lower()),
        "Paint {ref} {colour}",
        "{ref} turns {colour}",
        "Make {ref} {colour}",
        "Colour {ref} {colour}",
        "Change the colour of {ref} to {colour}",
    ),
    "replace": _speech(
        _write_replacement,
        _replacement,
        "Replace {ref} with {thing}",
        "{ref} makes room for {thing}",
        "Put {thing} in place of {ref}",
        "Exchange {ref} for {thing}",
    ),
    "change": _speech(
        _write_change,
        _replacement,
        "Turn {ref} into {thing}",
        "{ref} becomes {thing}",
        "{ref} turns into {thing}",
        "Change {ref} into {thing}",
    ),
    "grow": _resizing(
        Size.LARGE, "Make {ref} large", "{ref} grows large", "Make {ref} bigger", "{ref} grows"
    ),
    "shrink": _resizing(
        Size.SMALL, "Make {ref} small", "{ref} gets small", "Make {ref} smaller", "{ref} shrinks"
    ),
    "move": _speech(
        _write_move,
        lambda words, scene: Move(
            cell := find(scene, words["ref"]), find_position(scene.with_spot(cell, None), words["to"])
        ),
        "Move {ref} {to}",
        "{ref} moves {to}",
        "{ref} goes {to}",
        "Bring {ref} {to}",
    ),
    "step": _speech(
        lambda done, scene, style: {
            "ref": style.refer(scene, done.cell),
            "direction": _direction(done),
        },
        _read_step,
        "{ref} moves one step {direction}",
        "Move {ref} one step {direction}",
    ),
    "swap": _speech(
        lambda done, scene, style: {
            "ref": style.refer(scene, done.cell),
            "other": style.refer(scene, done.other),
        },
        lambda words, scene: Swap(find(scene, words["ref"]), find(scene, words["other"])),
        "Swap {ref} and {other}",
        "{ref} and {other} trade places",
        "Let {ref} and {other} change places",
    ),
    "travel": _speech(
        lambda done, scene, style: {"place": f"the {bare_noun(done.background)}"},
        lambda words, scene: ChangeBackground(ALL_BACKGROUND_OF_NOUN[words["place"].lower()]),
        "Change the background to {place}",
        "The scene changes to {place}",
        "Make the background {place}",
        "Move everything to {place}",
    ),
    "pick": _speech(
        lambda done, scene, style: {"ref": style.refer(scene, done.cell)},
        lambda words, scene: Pick(find(scene, words["ref"])),
        "Pick up {ref} with the gripper",
        "The gripper picks up {ref}",
        "The gripper lifts {ref}",
        "Grasp {ref}",
    ),
    "place": _speech(
        lambda done, scene, style: {
            "where": style.where(scene, done.cell),
            "colour": (scene.gripper.holds if scene.gripper else None) or "",
        },
        _read_put_down,
        "Put the {colour} block down {where}",
        "The gripper puts the {colour} block down {where}",
        "The gripper sets down the {colour} block {where}",
        "Release the {colour} block {where}",
    ),
    "put": _speech(
        _write_put,
        _read_put,
        "Put {ref} {touching} {other}",
        "{ref} is now {touching} {other}",
        "Place {ref} {touching} {other}",
    ),
    "put new": _speech(
        _write_put,
        _read_put_new,
        "Put {thing} {touching} {other}",
        "{thing} is now {touching} {other}",
        "Place {thing} {touching} {other}",
    ),
    "give": _speech(
        _write_put,
        _read_put,
        "Give {ref} to {other}",
        "{ref} is now held by {other}",
        "Let {ref} be held by {other}",
    ),
    "give new": _speech(
        _write_put,
        _read_put_new,
        "Give {thing} to {other}",
        "{thing} is now held by {other}",
        "Let {thing} be held by {other}",
    ),
    "make": _speech(_write_state, _read_state, "Make {ref} {state}", "{ref} is now {state}"),
    "nightfall": _time_of_day(nightfall, "Night falls", "It gets dark", "Make it night"),
    "daybreak": _time_of_day(daybreak, "Day breaks", "It gets light", "Make it day"),
}

_ADD_ROW = tuple(
    Pattern(text, GAPS)
    for text in ("Add {count} {things} {row}", "{count} {things} appear {row}", "Draw {count} {things} {row}")
)


def _direction(done: Move) -> str:
    for direction, step in DIRECTIONS.items():
        if neighbour(done.cell, step) == done.to:
            return direction
    raise NotUnderstood("not a single step")


def speech_of(operation: Operation, scene: Scene, style: Style) -> Speech:
    """The wordings of this operation."""
    match operation:
        case Resize():
            return SPEECH["grow" if operation.size is Size.LARGE else "shrink"]
        case Move():
            one_step = any(neighbour(operation.cell, step) == operation.to for step in DIRECTIONS.values())
            says_step = one_step and not style.exact and style.rng and style.rng.random() < 0.2
            return SPEECH["step" if says_step else "move"]
        case Put() | PutNew():
            verb = "give" if operation.relation is Relation.HELD else "put"
            return SPEECH[f"{verb} new" if isinstance(operation, PutNew) else verb]
        case ChangeBackground() if NIGHT_OF.get(scene.background) == operation.background:
            return SPEECH["nightfall"]
        case ChangeBackground() if (
            scene.background != "night" and DAY_OF.get(scene.background) == operation.background
        ):
            return SPEECH["daybreak"]
        case ChangeState() if style.rng and _is_adjective(operation, scene) and style.rng.random() < 0.5:
            return SPEECH["make"]
    names = {
        Add: "add",
        Remove: "remove",
        Recolour: "recolour",
        Replace: "replace",
        ChangeState: "change",
        Swap: "swap",
        ChangeBackground: "travel",
        Pick: "pick",
        Place: "place",
    }
    return SPEECH[names[type(operation)]]


def say(operation: Operation, scene: Scene, style: Style = Style()) -> str:
    """One sentence that asks for an operation in a scene."""
    speech = speech_of(operation, scene, style)
    pattern = style.choice(speech.patterns)
    return sentence(pattern.write(speech.write(operation, scene, style)))


def say_all(operations: Iterable[Operation], scene: Scene, style: Style = Style()) -> str:
    """A sentence for each operation; equal things that fill a row from the left are counted."""
    operations = tuple(operations)
    if row := _as_row(operations, scene):
        pattern = style.choice(_ADD_ROW)
        return sentence(pattern.write(row))
    said = []
    for operation in operations:
        said.append(say(operation, scene, style))
        scene = operation.apply(scene)
    return " ".join(said)


def _as_row(operations: tuple[Operation, ...], scene: Scene) -> Words | None:
    adds = [each for each in operations if isinstance(each, Add)]
    if len(adds) != len(operations) or not 2 <= len(adds) <= GRID:
        return None
    thing, first = adds[0].thing, adds[0].cell
    expected = [Add(thing, first + index) for index in range(len(adds))]
    if adds != expected or first % GRID or thing.noun in UNCOUNTABLE:
        return None
    count, things = counted(len(adds), thing).split(" ", 1)
    return {"count": count, "things": things, "row": ROWS[first // GRID]}


def parse_sentence(text: str, scene: Scene) -> tuple[Operation, ...]:
    """Parse a sentence into operations on a scene; raises when none of them is possible."""
    text, problem = normalised(text), "it does not say what to change"
    cause: InputError | None = None
    for pattern in _ADD_ROW:
        if words := pattern.read(text):
            row = [place.lower() for place in ROWS].index(words["row"].lower())
            thing = described_many(words["things"]).thing()
            count = NUMBERS.index(words["count"].lower())
            return tuple(Add(thing, row * GRID + column) for column in range(count))
    for operation_in in _matching(text):
        try:
            operation = operation_in(scene)
            operation.apply(scene)
        except InputError as error:
            problem, cause = str(error), error
            continue
        return (operation,)
    raise NotUnderstood(f"{text!r}: {problem}") from cause


def readings(text: str, scene: Scene) -> Iterator[Operation]:
    """Yield the operations that a sentence may ask for, possible or not. Raises `AlreadySo`."""
    for operation_in in _matching(normalised(text)):
        try:
            operation = operation_in(scene)
        except AlreadySo:
            raise
        except InputError:
            continue
        yield operation


def _matching(text: str) -> Iterator[Callable[[Scene], Operation]]:
    """Yield a function for each way to read a sentence: from a scene to the operation."""
    for speech in SPEECH.values():
        for pattern in speech.patterns:
            if (words := pattern.read(text)) is not None:
                yield partial(speech.read, words)
