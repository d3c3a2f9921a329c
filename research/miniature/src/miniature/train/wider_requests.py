"""Plain requests about random things of the world, so that every noun, state and place is planned often.

“A wet dog on a chair”, “a boy and a box: put the boy in the box, then night falls”. What is not said is
usual: colours, a large size, and the places where one, two or three things stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from interleave import InputError
from interleave_mini.bench.splits import has_held_out_pair
from interleave_mini.bench.tasks import Step
from interleave_mini.bench.wider_scenes import wider_operations, wider_scene
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import say_all
from interleave_mini.language.words import (
    POSITIONS,
    UNCOUNTABLE,
    a,
    capitalised,
    listed,
    sentence,
    the,
    to_position,
    within,
)
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Move,
    Operation,
    Put,
    PutNew,
    Recolour,
    Remove,
    Replace,
    thing_at,
)
from interleave_mini.world.scene import MIDDLE, Relation, Scene, Size, Thing
from interleave_mini.world.wider import ADJECTIVES, ALL_COLOURS, ALL_KINDS, DAY_OF, NIGHT_OF
from miniature.grammar.edits.plain import name_of_step
from miniature.grammar.lists_of_steps import written_as_list

_CELLS_OF: dict[int, tuple[int, ...]] = {1: (MIDDLE,), 2: (3, 5), 3: (3, 4, 5)}
_USUAL_PLACE = "meadow"
_COLOUR_SHARE, _PLACE_SHARE, _SMALL_SHARE, _BARE_SHARE = 0.3, 0.5, 0.3, 0.3
"""Shares of things in any colour, of images in a place, of small things that stay so, and of nouns without
an article."""
_LENGTHS = (1, 1, 1, 2, 2, 3, 3, 4)
_OPENINGS = ("", "", "", "", "draw ", "show ", "paint ", "make ", "a picture of ", "please draw ", "i want ")
_CHANGING = ("{the} becomes {a}", "{the} turns into {a}", "turn {the} into {a}", "now {the} is {a}")
_PUTTING = ("put {the} {where}", "{the} goes {where}", "{the} is now {where}", "place {the} {where}")
_PUTTING_NEW = ("put {a} {where}", "{a} goes {where}", "there is {a} {where}", "add {a} {where}")
_GIVING = ("give {the} to {to}", "{to} takes {the}", "{to} gets {the}", "{to} holds {the}")
_GIVING_NEW = ("give {a} to {to}", "{to} takes {a}", "{to} gets {a}", "{to} holds {a}")
_MOODS = (
    "{the} gets {state}",
    "{the} is {state}",
    "make {the} {state}",
    "now {the} is {state}",
    "{the} becomes {state}",
)
_REMOVING = ("{the} disappears", "remove {the}", "take {the} away", "{the} is gone", "{the} goes away")
_NIGHT = ("night falls", "it gets dark", "then it is night", "make it night")
_DAY = ("day breaks", "it gets light", "then it is day", "make it day", "the sun rises")
_TRIES = 30


def sample_wider_request(rng: Random) -> tuple[str, tuple[Step, ...]]:
    """Return a request and the steps of its plan."""
    while True:
        with suppress(InputError, IndexError):
            made = _sample(rng)
            if not any(has_held_out_pair(step.scene) for step in made[1]):
                return made


def _sample(rng: Random) -> tuple[str, tuple[Step, ...]]:
    scene, said = _beginning(rng)
    steps = [Step("The picture", capitalised(sentence(said)), scene)]
    wishes = [said]
    for _ in range(rng.choice(_LENGTHS) - 1):
        step, wish = further_step(steps[-1].scene, rng)
        steps.append(step)
        wishes.append(wish)
    if len(steps) == 1:
        return f"{rng.choice(_OPENINGS)}{said}", tuple(steps)
    steps[0] = replace(steps[0], name="The beginning")
    wishes[0] = f"{rng.choice(_OPENINGS)}{said}"
    if rng.random() < 0.5:
        return written_as_list(wishes, rng)[0], tuple(steps)
    return rng.choice((", then ", ". ", ", ", " and ", ": ")).join(wishes), tuple(steps)


def further_step(before: Scene, rng: Random) -> tuple[Step, str]:
    """Return a step from this scene, and a wish for it; raise `InputError` if nothing plain is possible."""
    operation, wish = _wish(before, rng)
    caption = say_all([operation], before, Style(way=1))
    after = operation.apply(before)
    return Step(name_of_step(operation, before), caption, after, (operation,), before), wish


def _beginning(rng: Random) -> tuple[Scene, str]:
    """Return a scene with one to three different things in their usual places, and words for it."""
    drawn = wider_scene(rng, rng.choice((1, 1, 1, 2, 2, 3)))
    things = list(dict.fromkeys(map(_usual, drawn.things.values())))
    things = [_seldom_unusual(thing, rng) for thing in things]
    has_place = rng.random() < _PLACE_SHARE or not things
    background = drawn.background if has_place else _USUAL_PLACE
    scene = Scene.of(background, dict(zip(_CELLS_OF[len(things)], things, strict=True)))
    if not _is_distinct(scene):
        raise InputError("a wish could not tell them apart")
    says = [_in_words(thing, rng) for thing in things]
    words = says[0] if len(says) == 1 else rng.choice((listed(says), ", ".join(says), " and ".join(says)))
    if not has_place:
        return scene, words
    return scene, rng.choice((f"{words} {within(background)}", f"{within(background)}, {words}"))


def _usual(thing: Thing) -> Thing:
    load = thing.load and replace(thing.load, thing=_usual(thing.load.thing))
    return replace(thing, colour=ALL_KINDS[thing.kind].colour, load=load)


def _seldom_unusual(thing: Thing, rng: Random) -> Thing:
    """Return it in any colour, which is said then, and small only now and then."""
    colour = rng.choice([*ALL_COLOURS]) if rng.random() < _COLOUR_SHARE else thing.colour
    is_small = thing.size is Size.SMALL and rng.random() < _SMALL_SHARE
    return replace(thing, colour=colour, size=Size.SMALL if is_small else Size.LARGE)


def _in_words(thing: Thing, rng: Random) -> str:
    words = _named(thing, rng)
    if thing.load is None:
        return words
    return f"{_named(thing.load.thing, rng, size=False)} {thing.load.relation.value} {words}"


def _named(thing: Thing, rng: Random, *, size: bool | None = None) -> str:
    is_usual = thing.colour == ALL_KINDS[thing.kind].colour
    words = a(thing, size=size, colour=not is_usual or rng.random() < _COLOUR_SHARE / 2)
    if rng.random() < _BARE_SHARE and thing.noun not in UNCOUNTABLE:
        return words.split(" ", 1)[1]
    return words


def _wish(scene: Scene, rng: Random) -> tuple[Operation, str]:
    """Return an operation that is possible here and can be said plainly, with its words."""
    for _ in range(_TRIES):
        made = wider_operations(scene, rng, most=1)
        said = _said(made[0], scene, rng) if made and _is_plain(made[0], scene) else None
        if made and said:
            return made[0], said
    raise InputError("nothing plain is possible")


def _is_plain(operation: Operation, scene: Scene) -> bool:
    """Return whether nouns alone tell all things of the scene afterwards apart, and new ones are large."""
    new = operation.thing if isinstance(operation, Add | Replace | PutNew) else None
    return _is_distinct(operation.apply(scene)) and (new is None or new.size is Size.LARGE)


def _is_distinct(scene: Scene) -> bool:
    kinds = [thing.kind for thing in scene.everything.values()]
    return len(kinds) == len(set(kinds))


def _said(operation: Operation, scene: Scene, rng: Random) -> str | None:
    """Return a wish in plain words; `None` for operations that other requests ask for often."""
    match operation:
        case ChangeState(cell, state):
            thing = thing_at(scene, cell)
            new = replace(thing.alone, state=state)
            adjective = ADJECTIVES[thing.kind][state]
            if adjective and rng.random() < 0.7:
                return _filled(_MOODS, rng, the=_the(thing, rng), state=adjective)
            return _filled(_CHANGING, rng, the=_the(thing, rng), a=a(new, size=False, colour=False))
        case Put(cell, relation, to):
            carrier, moved = thing_at(scene, to), thing_at(scene, cell)
            ways = _GIVING if relation is Relation.HELD else _PUTTING
            return _filled(
                ways,
                rng,
                the=_the(moved, rng),
                to=_the(carrier, rng),
                where=f"{relation.value} {_the(carrier, rng)}",
            )
        case PutNew(thing, relation, to):
            carrier = thing_at(scene, to)
            ways = _GIVING_NEW if relation is Relation.HELD else _PUTTING_NEW
            where = f"{relation.value} {_the(carrier, rng)}"
            return _filled(ways, rng, a=_new(thing), to=_the(carrier, rng), where=where)
        case Remove(cell):
            return _filled(_REMOVING, rng, the=_the(thing_at(scene, cell), rng))
        case Recolour(cell, colour):
            words = _the(thing_at(scene, cell), rng)
            return rng.choice(
                (f"paint {words} {colour}", f"{words} turns {colour}", f"make {words} {colour}")
            )
        case Replace(cell, thing):
            words = _the(thing_at(scene, cell), rng)
            return rng.choice((f"replace {words} with {_new(thing)}", f"{_new(thing)} instead of {words}"))
        case ChangeBackground(background) if background == NIGHT_OF.get(scene.background):
            return rng.choice(_NIGHT)
        case ChangeBackground(background) if background == DAY_OF.get(scene.background):
            return rng.choice(_DAY)
        case ChangeBackground(background):
            return rng.choice((f"now {within(background)}", f"change the background: {within(background)}"))
        case Add(thing, cell):
            return f"add {_new(thing)} {POSITIONS[cell][0]}"
        case Move(cell, to):
            words = _the(thing_at(scene, cell), rng)
            where = to_position(POSITIONS[to][0])
            return rng.choice((f"move {words} {where}", f"{words} goes {where}", f"{words} moves {where}"))
    return None


def _filled(ways: Sequence[str], rng: Random, **words: str) -> str:
    return rng.choice(ways).format(**words)


def _the(thing: Thing, rng: Random) -> str:
    """Return its noun, often without its state: nothing else of its kind is there."""
    kind = ALL_KINDS[thing.kind]
    if ADJECTIVES[thing.kind][thing.state] and rng.random() < 0.6:
        return f"the {kind.states[kind.usual]}"
    return the(thing, colour=False)


def _new(thing: Thing) -> str:
    return a(thing, size=False, colour=thing.colour != ALL_KINDS[thing.kind].colour)
