"""Whole scenes ⇄ text: "A meadow with a red cat in the middle and two small balls in the bottom row."."""

from __future__ import annotations

import re
from dataclasses import replace

from interleave import InputError
from interleave_mini.language.patterns import NotUnderstood, normalised
from interleave_mini.language.references import THING, Style, thing_described
from interleave_mini.language.words import (
    ALL_BACKGROUND_OF_NOUN,
    ALL_BACKGROUND_OF_PHRASE,
    ALL_PLACES,
    CELL_OF,
    DESCRIBED_MANY,
    NUMBERS,
    ROWS,
    UNCOUNTABLE,
    a,
    bare_noun,
    capitalised,
    counted,
    described_many,
    listed,
    one_of,
    sentence,
    with_article,
)
from interleave_mini.world.scene import GRID, Gripper, Load, Relation, Scene, Thing, carried
from interleave_mini.world.wider import ALL_COLOURS

_COUNT = one_of(NUMBERS[2 : GRID + 1])
_POSITION = one_of(CELL_OF)
_HAND = rf"(?:an empty gripper|a gripper (?:that holds|holding) an? (?P<holds>{one_of(ALL_COLOURS)}) block)"
_ITEM = re.compile(
    rf"(?:(?:(?P<load>{THING}) (?P<relation>{one_of(Relation)}) (?=an? |some |one ))?"
    rf"(?P<thing>{THING})(?: (?P<where>{_POSITION}))?"
    rf"|(?P<count>{_COUNT}) (?P<things>{DESCRIBED_MANY}) (?P<row>{one_of(ROWS)})"
    rf"|(?P<hand>{_HAND}) (?P<above>{_POSITION}))",
    re.IGNORECASE,
)
_PLACE, _WITHIN = one_of(ALL_BACKGROUND_OF_NOUN), one_of(ALL_BACKGROUND_OF_PHRASE)
_BARE = {bare_noun(background): background for background in ALL_PLACES}
_WHOLE = (
    re.compile(rf"(?:draw |show )?(?P<place>{_PLACE}) with (?P<items>.+)", re.IGNORECASE),
    re.compile(rf"(?P<within>{_WITHIN}),? (?:there is|there are|we see) (?P<items>.+)", re.IGNORECASE),
    re.compile(rf"(?:draw |show )?(?P<items>.+?),? (?P<within>{_WITHIN})", re.IGNORECASE),
    re.compile(rf"(?:draw |show )?an empty (?P<bare>{one_of(_BARE)})", re.IGNORECASE),
    re.compile(rf"(?:draw |show )?(?P<place>{_PLACE})", re.IGNORECASE),
)
_MORE = re.compile(r"(?:there is|there are|we see|then comes) (?P<items>.+)", re.IGNORECASE)
_CLOSING = re.compile(r"nothing else|there is nothing else", re.IGNORECASE)
_COMMA = re.compile(r", (?:and )?| and ", re.IGNORECASE)


def describe(scene: Scene, style: Style = Style()) -> str:
    """A prompt that draws this scene without a source image."""
    items = _items(scene, style)
    place = ALL_PLACES[scene.background]
    if not items:
        return sentence(f"an empty {bare_noun(scene.background)}")
    if style.exact:
        return f"{capitalised(place.noun)} with {listed(items)}. There is nothing else in the picture."
    ways = [f"{place.noun} with {listed(items)}"]
    if style.rng:
        within = style.rng.choice((place.within, *place.others))
        ways += [f"draw {place.noun} with {listed(items)}", f"{within}, there is {listed(items)}"]
        ways.append(f"draw {listed(items)}, {within}")
    return sentence(style.rng.choice(ways) if style.rng else ways[0])


def _items(scene: Scene, style: Style) -> list[str]:
    items, done = [], set[int]()
    for cell, thing in scene.things.items():
        if cell in done:
            continue
        row = _run(scene, cell)
        if row > 1 and not style.exact and thing.noun not in UNCOUNTABLE and not thing.load:
            items.append(f"{counted(row, thing)} {ROWS[cell // GRID]}")
            done |= set(range(cell, cell + row))
        else:
            items.append(f"{_with_load(thing, style)} {style.position(cell)}")
    if scene.gripper is not None:
        holds = scene.gripper.holds
        hand = f"a gripper holding {with_article(f'{holds} block')}" if holds else "an empty gripper"
        items.append(f"{hand} {style.position(scene.gripper.column)}")
    return items


def _with_load(thing: Thing, style: Style) -> str:
    """ "a red cat", or "a red cat on a brown chair"."""
    if thing.load is None:
        return style.thing(thing)
    return f"{a(thing.load.thing, size=False)} {thing.load.relation.value} {style.thing(thing)}"


def _run(scene: Scene, cell: int) -> int:
    """How many equal things stand side by side, from the left end of a row."""
    count = 1
    while cell % GRID == 0 and count < GRID and scene.cells[cell + count] == scene.cells[cell]:
        count += 1
    return count


def parse_description(text: str) -> Scene:
    """Parse a description into its scene; raises `NotUnderstood` when it is not one."""
    first, *rest = [normalised(part) for part in re.split(r"(?<=[.!]) ", text) if normalised(part)] or [""]
    for pattern in _WHOLE:
        found = pattern.fullmatch(first)
        if found is None:
            continue
        groups = found.groupdict()
        background = _background(groups)
        try:
            items = _COMMA.split(groups["items"]) if groups.get("items") else []
            for more in rest:
                if _CLOSING.match(more):
                    continue
                if (extra := _MORE.fullmatch(more)) is None:
                    raise NotUnderstood(f"not part of a description: {more!r}")
                items += _COMMA.split(extra["items"])
            return _scene(background, items)
        except InputError:
            continue
    raise NotUnderstood(f"not the description of a scene: {text!r}")


def _background(groups: dict[str, str | None]) -> str:
    tables = {"place": ALL_BACKGROUND_OF_NOUN, "within": ALL_BACKGROUND_OF_PHRASE, "bare": _BARE}
    return next(table[words.lower()] for group, table in tables.items() if (words := groups.get(group)))


def _scene(background: str, items: list[str]) -> Scene:
    things: dict[int, Thing] = {}
    gripper = None

    def put(cell: int, thing: Thing) -> None:
        if cell in things:
            raise NotUnderstood("two things in one place")
        things[cell] = thing

    for item in items:
        found = _ITEM.fullmatch(item.strip())
        if found is None:
            raise NotUnderstood(f"not a thing of a scene: {item!r}")
        if found["hand"]:
            gripper = Gripper(CELL_OF[found["above"].lower()], found["holds"] and found["holds"].lower())
        elif found["things"]:
            row, count = ROWS.index(found["row"].lower()), NUMBERS.index(found["count"].lower())
            for column in range(count):
                put(row * GRID + column, described_many(found["things"]).thing())
        else:
            cell = CELL_OF[found["where"].lower()] if found["where"] else 4
            put(cell, _carrying(found, thing_described(found["thing"]).thing()))
    return Scene.of(background, things, gripper)


def _carrying(found: re.Match[str], thing: Thing) -> Thing:
    if not found["load"]:
        return thing
    load = carried(thing_described(found["load"]).thing())
    return replace(thing, load=Load(Relation(found["relation"].lower()), load))
