"""A reasoning edit: its wordings, and the operations it leads to in a given scene."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from random import Random

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.patterns import Pattern, filled
from interleave_mini.language.references import REFERENCE, THING, Style, find, thing_described
from interleave_mini.language.sentences import say_all
from interleave_mini.language.words import (
    capitalised,
    one_of,
    sentence,
    the,
)
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS
from interleave_mini.world.operations import (
    ChangeBackground,
    ChangeState,
    Impossible,
    Operation,
    apply_all,
    stage_after,
    thing_at,
)
from interleave_mini.world.scene import CELLS, Scene, Size, Thing

CATEGORIES = {
    "animals": "animal",
    "plants": "plant",
    "vehicles": "vehicle",
    "toys": "toy",
    "shapes": "shape",
    "buildings": "building",
}
_PLURAL_OF = {category: words for words, category in CATEGORIES.items()}
_TRIES = 400
_OUTDOORS = ("meadow", "beach", "snow", "desert", "forest", "city", "sea")


@dataclass(frozen=True)
class Given:
    """Values of the gaps of an edit: cells, a colour, a new thing, a category."""

    ref: int = -1
    other: int = -1
    colour: str = ""
    shade: str = ""
    thing: Thing | None = None
    category: str = ""


Consequence = Callable[[Scene, Given], tuple[Operation, ...]]
"""Function from a scene to the operations of an edit; raises `Impossible` if it makes no sense."""


GAPS = {
    "ref": REFERENCE,
    "other": REFERENCE,
    "colour": one_of(COLOURS),
    "shade": one_of(COLOURS),
    "thing": THING,
    "category": one_of(CATEGORIES),
}


@dataclass(frozen=True)
class Edit:
    """One kind of reasoning edit: its templates, and the operations it leads to in a scene."""

    kind: str
    name: str
    happens: Consequence
    templates: tuple[str, ...]
    about: tuple[str, ...] = ()
    """Kinds of thing it applies to; empty means all."""

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(Pattern(text.rstrip(".!?"), GAPS) for text in self.templates)

    def read(self, text: str, scene: Scene) -> Step | None:
        """Return the step of a normalised request; `None` if it is another edit or impossible here."""
        for pattern in self.patterns:
            words = pattern.read(text)
            if words is None:
                continue
            try:
                return self.step(scene, _given(words, scene))
            except InputError:
                continue
        return None

    def step(self, scene: Scene, given: Given) -> Step:
        operations = self.happens(scene, given)
        if not operations:
            raise Impossible("nothing would change")
        said = say_all(operations, scene, Style(way=1))
        return Step(capitalised(self.name), said, apply_all(operations, scene), operations, scene)


def _given(words: dict[str, str], scene: Scene) -> Given:
    return Given(
        find(scene, words["ref"]) if "ref" in words else -1,
        find(scene, words["other"]) if "other" in words else -1,
        words.get("colour", "").lower(),
        words.get("shade", "").lower(),
        thing_described(words["thing"]).thing() if "thing" in words else None,
        CATEGORIES[words["category"].lower()] if "category" in words else "",
    )


@dataclass(frozen=True)
class EditRequest:
    """A request for a reasoning edit, with its image and its step."""

    text: str
    template: str
    edit: Edit
    step: Step


def sample_edit(
    edit: Edit, rng: Random, *, allowed: Callable[[Thing], bool] = lambda thing: True
) -> EditRequest:
    """Return a random request of this kind about a random scene; raise `Impossible` if none makes sense."""
    for _ in range(_TRIES):
        template = rng.choice(edit.templates)
        scene = _random_scene(edit, rng, allowed)
        given = _random_given(scene, rng)
        words = {
            "ref": Style().refer(scene, given.ref),
            "other": Style().refer(scene, given.other),
            "colour": given.colour,
            "shade": given.shade,
            "thing": Style().thing(given.thing) if given.thing else "",
            "category": _PLURAL_OF.get(given.category, ""),
        }
        text = sentence(filled(template, words))
        try:
            step = edit.step(scene, given)
        except InputError:
            continue
        after = edit.read(text.rstrip(".!?"), scene)
        if after is not None and after.scene == step.scene:
            return EditRequest(text, template, edit, step)
    raise Impossible(f"no scene found for the edit {edit.name!r}")


def _random_scene(edit: Edit, rng: Random, allowed: Callable[[Thing], bool]) -> Scene:
    """Return a scene of a few things, one of which the edit applies to; some are equal, to test rules."""
    count = rng.randint(2, 4)
    kinds = [rng.choice(edit.about or list(KINDS))]
    kinds += [rng.choice([*KINDS, kinds[0]]) for _ in range(count - 1)]
    colours = [rng.choice(list(COLOURS)) for _ in range(2)]
    things: list[Thing] = []
    while len(things) < count:
        kind = kinds[len(things)]
        state = rng.randrange(len(KINDS[kind].states))
        thing = Thing(kind, rng.choice([*colours, rng.choice(list(COLOURS))]), rng.choice(list(Size)), state)
        if allowed(thing):
            things.append(thing)
    cells = rng.sample(range(CELLS), count)
    return Scene.of(rng.choice(BACKGROUNDS), dict(zip(cells, things, strict=True)))


def _random_given(scene: Scene, rng: Random) -> Given:
    ref, other = rng.sample(list(scene.things), 2)
    colour, shade = rng.sample(list(COLOURS), 2)
    if rng.random() < 0.7:
        colour = thing_at(scene, ref).colour
    kind = rng.choice(list(KINDS.values()))
    thing = Thing(kind.name, rng.choice(list(COLOURS)), Size.LARGE, kind.usual)
    category = KINDS[thing_at(scene, ref).kind].category
    return Given(ref, other, colour, shade, thing, category if category in _PLURAL_OF else "animal")


# Consequences that edits of several kinds share


def one_stage(kinds: tuple[str, ...], step: int) -> Consequence:
    def happens(scene: Scene, given: Given) -> tuple[Operation, ...]:
        thing = of_kind(scene, given.ref, kinds)
        return (ChangeState(given.ref, stage_after(thing, step)),)

    return happens


def at_stage(kinds: tuple[str, ...], state: int) -> Consequence:
    def happens(scene: Scene, given: Given) -> tuple[Operation, ...]:
        thing = of_kind(scene, given.ref, kinds)
        return (ChangeState(given.ref, state % len(KINDS[thing.kind].states)),)

    return happens


def place_becomes(background: str) -> Consequence:
    def happens(scene: Scene, given: Given) -> tuple[Operation, ...]:
        if scene.background not in _OUTDOORS:
            raise Impossible("this happens out of doors")
        return (ChangeBackground(background),)

    return happens


def of_kind(scene: Scene, cell: int, kinds: tuple[str, ...]) -> Thing:
    thing = thing_at(scene, cell)
    if thing.kind not in kinds:
        raise Impossible(f"this does not happen to {the(thing)}")
    return thing
