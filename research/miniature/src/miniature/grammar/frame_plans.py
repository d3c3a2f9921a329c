"""The steps of frames, in short: `garden: a on b l; c r`, then `a > m; b = broken; night`.

Positions are tl t tr l m r bl b br; `*` is a free cell, and `by a` one beside a slot. Items: `a m`,
`a.sleeping on b l`, `3 a m` (in a row), `small a m`. Operations: `a > r` (moves), `a = wet`, `a =` (as
usual), `+ a r`, `+ a in b`, `a in b`, `a held b`, `a off` (leaves what carries it), `- a`, `a ~ c` (paint),
`a => b` (replace), `a <> b` (swap), `a big`, `a small`, `night`, `day`, `at p`. Semicolons separate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from interleave import InputError
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Impossible,
    Move,
    Operation,
    Put,
    PutNew,
    Recolour,
    Remove,
    Replace,
    Resize,
    Swap,
    daybreak,
    nightfall,
)
from interleave_mini.world.scene import CELLS, GRID, Load, Relation, Scene, Size, Thing, carried
from interleave_mini.world.wider import ALL_COLOURS
from miniature.grammar.edits.plain import name_of_step
from miniature.grammar.frame_words import Role, state_of

_POSITIONS = {name: cell for cell, name in enumerate(("tl", "t", "tr", "l", "m", "r", "bl", "b", "br"))}
_MIRRORED = (2, 1, 0, 5, 4, 3, 8, 7, 6)
_FREE = (5, 3, 4, 8, 6, 7, 2, 0, 1)
"""Where new things go, the first that is free."""
_RELATIONS = {"on": Relation.ON, "in": Relation.IN, "under": Relation.UNDER, "held": Relation.HELD}


class Stage:
    """Carries out the steps of a frame for what fills its slots."""

    def __init__(
        self,
        roles: Mapping[str, Role],
        places: Mapping[str, str],
        colours: Mapping[str, str],
        numbers: Mapping[str, int],
        *,
        mirrored: bool = False,
    ) -> None:
        self.roles, self.places, self.colours, self.numbers = roles, places, colours, numbers
        self.mirrored = mirrored
        self.now = {slot: (role.kind, role.colour) for slot, role in roles.items()}
        self.scene = Scene("meadow")
        self.name = ""

    def begin(self, background: str, items: str) -> Scene:
        """Build the first scene from its items."""
        things: dict[int, Thing] = {}
        for item in filter(None, map(str.strip, items.split(";"))):
            for cell, thing in self._item(item.split()):
                if cell in things:
                    raise Impossible("two things in one cell")
                things[cell] = thing
        self.scene = Scene.of(background, things)
        return self.scene

    def _item(self, words: list[str]) -> list[tuple[int, Thing]]:
        cell = self.cell_of(words[-1])
        if words[0].isdigit() or words[0] in self.numbers:
            count = int(words[0]) if words[0].isdigit() else self.numbers[words[0]]
            return [(each, self._thing(words[1])) for each in _row(count, cell)]
        if words[0] == "small":
            return [(cell, replace(self._thing(words[1]), size=Size.SMALL))]
        thing = self._thing(words[0])
        if len(words) == 2:
            return [(cell, thing)]
        return [(cell, replace(self._thing(words[2]), load=Load(_RELATIONS[words[1]], carried(thing))))]

    def _thing(self, slot: str) -> Thing:
        name, _, state = slot.partition(".")
        thing = replace(self.roles[name].thing, colour=self.now[name][1])
        return replace(thing, state=state_of(thing.kind, state)) if state else thing

    def cell_of(self, word: str) -> int:
        if word == "*":
            return next((cell for cell in _FREE if self.scene.is_free(cell)), 0)
        cell = _POSITIONS[word]
        return _MIRRORED[cell] if self.mirrored else cell

    def spot(self, slot: str) -> int:
        """Return where the thing of a slot is; of several equal ones the last."""
        kind, colour = self.now[slot]
        for spot, thing in reversed(self.scene.everything.items()):
            if (thing.kind, thing.colour) == (kind, colour):
                return spot
        raise Impossible(f"there is no {kind}")

    def carry_out(self, line: str) -> tuple[Operation, ...]:
        """Apply the operations of one step."""
        before, found = self.scene, []
        for words in map(str.split, line.split(";")):
            operation = self._operation(words)
            self.name = name_of_step(operation, self.scene)
            self.scene = operation.apply(self.scene)
            found.append(operation)
        if self.scene == before:
            raise Impossible("nothing changes")
        return tuple(found)

    def _operation(self, words: list[str]) -> Operation:
        match words:
            case ["night"]:
                return nightfall(self.scene)
            case ["day"]:
                return daybreak(self.scene)
            case ["at", place]:
                return ChangeBackground(self.places.get(place, place.replace("_", " ")))
            case ["-", slot]:
                return Remove(self.spot(slot))
            case ["+", slot, where]:
                return Add(self._thing(slot), self.cell_of(where))
            case ["+", slot, "by", other]:
                return Add(self._thing(slot), self._beside(other))
            case ["+", slot, relation, other]:
                return PutNew(carried(self._thing(slot)), _RELATIONS[relation], self.spot(other))
            case [slot, ">", "by", other]:
                return Move(self.spot(slot), self._beside(other))
            case [slot, ">", where]:
                return Move(self.spot(slot), self.cell_of(where))
            case [slot, "="]:
                return ChangeState(self.spot(slot), state_of(self.roles[slot].kind, ""))
            case [slot, "=", state]:
                return ChangeState(self.spot(slot), state_of(self.roles[slot].kind, state))
            case [slot, "~", colour]:
                return self._paint(slot, self.colours.get(colour, colour))
            case [slot, "off"]:
                return self._off(slot)
            case [slot, "=>", other]:
                spot, thing = self.spot(slot), self._thing(other)
                return Replace(spot, carried(thing) if spot >= CELLS else thing)
            case [slot, "<>", other]:
                return Swap(self.spot(slot), self.spot(other))
            case [slot, ("big" | "small") as size]:
                return Resize(self.spot(slot), Size.LARGE if size == "big" else Size.SMALL)
            case [slot, relation, other] if relation in _RELATIONS:
                return Put(self.spot(slot), _RELATIONS[relation], self.spot(other))
        raise InputError(f"no operation: {' '.join(words)!r}")

    def _paint(self, slot: str, colour: str) -> Recolour:
        if colour not in ALL_COLOURS:
            raise InputError(f"no colour: {colour!r}")
        spot = self.spot(slot)
        self.now[slot] = (self.now[slot][0], colour)
        return Recolour(spot, colour)

    def _off(self, slot: str) -> Move:
        spot = self.spot(slot)
        if spot < CELLS:
            raise Impossible("it is on nothing")
        return Move(spot, self.cell_of("*"))

    def _beside(self, slot: str) -> int:
        """Return a free cell next to a slot: in its row, or below or above it."""
        cell = self.spot(slot) % CELLS
        column = cell % GRID
        sides = [cell + step for step in (1, -1) if 0 <= column + step < GRID]
        others = [each for each in (cell + GRID, cell - GRID) if 0 <= each < CELLS]
        for each in (*sides, *others):
            if self.scene.is_free(each):
                return each
        raise Impossible("there is no room")


def _row(count: int, cell: int) -> range:
    """Return cells for some equal things: in the row of a cell, or from the top if they are many."""
    if not 0 < count <= CELLS:
        raise Impossible("too many")
    first = 0 if count > GRID else cell // GRID * GRID
    return range(first, first + count)
