"""Cells in which a thing carries another: the carrier is found where its load cannot be, then the load.

Shifts of sprites are multiples of a coarse pixel, so the coarse templates can be shifted, too. The best few
pairs are painted and compared with the cell itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interleave_mini.reader.arrays import Array, Arrays, Templates, confidence_of, reduced
from interleave_mini.reader.template_cache import painted
from interleave_mini.world.backgrounds import background
from interleave_mini.world.carrying import RASTER
from interleave_mini.world.drawing import (
    EMPTY,
    RELATIONS,
    ROW_OF,
    THINGS,
    appearance,
    corner,
    load_code,
    thing_of,
)
from interleave_mini.world.scene import CELLS, Size, Thing
from interleave_mini.world.sprites import CELL, laid_over
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_KINDS

_FINE = 40
_CARRIERS, _PAIRS = 12, 8
"""How many carriers, and how many pairs, are examined further."""
_LINES, _COLUMNS = slice(34 // RASTER, CELL // RASTER), slice(18 // RASTER, 64 // RASTER)
"""Where a small sprite is in its cell, in coarse pixels."""
Codes = tuple[int, int]
"""The row of the carrier and the code of the load."""
Pair = tuple[int, int, float, float]
"""The same, with the confidence and the error."""


@dataclass(frozen=True)
class _Carriers:
    """All carriers in all relations: sums of products of where their load cannot be, with their sprites."""

    rows: NDArray[np.int64]
    relations: NDArray[np.int64]
    layouts: NDArray[np.int64]
    colour: Array
    opacity: Array
    seen: Array
    """Carriers × pixels: 1 where the load cannot be."""


class PairReader:
    """Finds the pair that a cell shows."""

    def __init__(self, arrays: Arrays, coarse: Templates) -> None:
        self.arrays = arrays
        self.coarse = coarse

    def read(self, pixels: Any, coarse: Array, spot: int, expected: Sequence[Thing] = ()) -> Pair:
        """The best pair of a cell; with `expected` the best of these and of others in their states."""
        shown = pixels if isinstance(pixels, np.ndarray) else self.arrays.to_numpy(pixels)
        if expected:
            alike = (codes for thing in expected for codes in _in_all_states(thing))
            return self._exactly(shown, spot, list(dict.fromkeys(alike)))
        return self._exactly(shown, spot, self._nearest(coarse, spot))

    def _nearest(self, coarse: Array, spot: int) -> list[Codes]:
        """The pairs that are nearest to a cell."""
        behind = self.coarse.backgrounds[spot]
        likely = self.arrays.to_numpy(
            self.arrays.smallest(self._carrier_errors(coarse, behind)[None], _CARRIERS)[0]
        )
        pairs: list[tuple[float, int, int]] = []
        for carrier in likely.tolist():
            errors = self._load_errors(coarse, behind, carrier)[None]
            for load in self.arrays.to_numpy(self.arrays.smallest(errors, _PAIRS))[0].tolist():
                pairs.append((float(errors[0, load]), carrier, load))
        known, relations = self._carriers, len(RELATIONS)
        return [
            (int(known.rows[at]), int(self._small_rows[load]) * relations + int(known.relations[at]))
            for _, at, load in sorted(pairs)[:_PAIRS]
        ]

    def _exactly(self, pixels: NDArray[np.uint8], spot: int, found: Sequence[Codes]) -> Pair:
        """The best of some pairs, painted and compared with the cell."""
        top, left = corner(spot % CELLS)
        empty = background(ALL_BACKGROUNDS[spot // CELLS])[top : top + CELL, left : left + CELL]
        off = [laid_over(appearance(thing_of(row, code)), empty) for row, code in found]
        off += [laid_over(appearance(thing_of(found[0][0], EMPTY)), empty), empty]
        differences = reduced(np.stack(off).astype(np.float32) - pixels, _FINE).reshape(len(off), -1)
        errors = np.sqrt((differences**2).mean(axis=1))
        best = int(errors[: len(found)].argmin())
        apart = np.sqrt(((differences - differences[best]) ** 2).mean(axis=1))
        return *found[best], float(confidence_of(errors[best], errors, apart)), float(errors[best])

    def _carrier_errors(self, cell: Array, behind: Array) -> Array:
        """The mean squared distance of a cell to every carrier, where its load cannot be."""
        known, product = self._carriers, self.arrays.product
        change = cell - behind
        squares = (change**2).reshape(-1, 3).sum(axis=1)
        veiled = (change * behind).reshape(-1, 3).sum(axis=1)
        ground = (behind**2).reshape(-1, 3).sum(axis=1)
        seen_colour = self._seen_colour
        return (
            product(known.seen, squares)
            - 2 * (product(seen_colour, change) - product(self._seen_opacity, veiled))
            + self._seen_squares
            - 2 * product(self._seen_tint, behind)
            + product(self._seen_opacity_squares, ground)
        ) / known.seen.sum(axis=1)

    def _load_errors(self, cell: Array, behind: Array, carrier: int) -> Array:
        """The squared distance of a cell to a carrier with each of the small things."""
        known, side = self._carriers, self.coarse.side
        _, _, across, down, cut, is_behind = known.layouts[carrier].tolist()
        opacity = known.opacity[carrier].reshape(side, side, 1)
        ground = behind.reshape(side, side, 3)
        over = known.colour[carrier].reshape(side, side, 3) + (1 - opacity) * ground
        weight = (1 - opacity) if is_behind else opacity * 0 + 1
        below = ground if is_behind else over
        change = cell.reshape(side, side, 3) - over
        total = (change**2).sum()
        change, below, weight = (
            self._moved_back(each, across // RASTER, down // RASTER, cut // RASTER)
            for each in (change * weight, below, weight)
        )
        squared, product = weight**2, self.arrays.product
        whole = squared + ground * 0
        colours, opacities = self._small
        veiled = product(opacities, (change * below).sum(axis=2).reshape(-1))
        return (
            total
            - 2 * (product(colours, change.reshape(-1)) - veiled)
            + product(self._small_squares, whole.reshape(-1))
            - 2 * product(self._small_tint, (squared * below).reshape(-1))
            + product(opacities**2, (squared * below**2).sum(axis=2).reshape(-1))
        )

    def _moved_back(self, values: Array, across: int, down: int, cut: int) -> Array:
        """Values of a cell where an unmoved sprite would be, and zero where the moved one is not seen."""
        side, moved = self.coarse.side, values * 0
        lines = slice(max(0, down), min(side + min(0, down), cut))
        columns = slice(max(0, across), side + min(0, across))
        moved[lines.start - down : lines.stop - down, columns.start - across : columns.stop - across] = (
            values[lines, columns]
        )
        return moved

    # The templates of carriers and of small things, computed when the first pair is read

    @cached_property
    def _small_rows(self) -> NDArray[np.int64]:
        return np.array([row for row, thing in enumerate(THINGS, start=1) if thing.size is Size.SMALL])

    @cached_property
    def _small(self) -> tuple[Array, Array]:
        rows = self.arrays.integers(self._small_rows)
        return self.coarse.colour[rows], self.coarse.opacity[rows]

    @cached_property
    def _small_squares(self) -> Array:
        return self._small[0] ** 2

    @cached_property
    def _small_tint(self) -> Array:
        colours, opacities = self._small
        return (colours.reshape(len(colours), -1, 3) * opacities[:, :, None]).reshape(len(colours), -1)

    @cached_property
    def _carriers(self) -> _Carriers:
        table = painted().layouts.astype(np.int64)
        which = table[:, 0].nonzero()[0]
        where = table[which]
        side = self.coarse.side
        drawn = self.arrays.integers(where[:, 0])
        colour = self.coarse.colour[drawn].reshape(-1, side, side, 3)
        opacity = self.coarse.opacity[drawn].reshape(-1, side, side)
        for shift in np.unique(where[:, 1]).tolist():
            if shift:  # to the left
                some = self.arrays.integers((where[:, 1] == shift).nonzero()[0])
                for values in (colour, opacity):
                    moved = values[some] * 0
                    moved[:, :, : side + shift // RASTER] = values[some][:, :, -shift // RASTER :]
                    values[some] = moved
        seen = self.arrays.floats(_seen(where, side))
        hidden = self.arrays.floats(where[:, 5])[:, None, None] * (opacity > 0.98)
        seen = (seen + (1 - seen) * hidden).reshape(len(which), -1)
        return _Carriers(
            which // len(RELATIONS),
            which % len(RELATIONS),
            where,
            colour.reshape(len(which), -1),
            opacity.reshape(len(which), -1),
            seen,
        )

    def _seen_pixels(self, values: Array) -> Array:
        seen = self._carriers.seen
        return (values.reshape(*seen.shape, 3) * seen[:, :, None]).reshape(len(seen), -1)

    @cached_property
    def _seen_colour(self) -> Array:
        return self._seen_pixels(self._carriers.colour)

    @cached_property
    def _seen_opacity(self) -> Array:
        return self._carriers.seen * self._carriers.opacity

    @cached_property
    def _seen_opacity_squares(self) -> Array:
        return self._seen_opacity * self._carriers.opacity

    @cached_property
    def _seen_squares(self) -> Array:
        return (self._seen_colour * self._carriers.colour).sum(axis=1)

    @cached_property
    def _seen_tint(self) -> Array:
        known = self._carriers
        tint = known.colour.reshape(*known.opacity.shape, 3) * known.opacity[:, :, None]
        return self._seen_pixels(tint)


def _seen(where: NDArray[np.int64], side: int) -> NDArray[np.float32]:
    """1 where the load of each carrier cannot be."""
    seen = np.ones((len(where), side, side), np.float32)
    for row, (_, _, across, down, cut, _) in enumerate((where // [1, *[RASTER] * 4, 1]).tolist()):
        lines = slice(max(0, _LINES.start + down), min(_LINES.stop + down, cut))
        seen[row, lines, _COLUMNS.start + across : _COLUMNS.stop + across] = 0
    return seen


def _in_all_states(thing: Thing) -> Iterator[Codes]:
    """The codes of a pair, and of those that differ by a state: they are the most alike."""
    if thing.load is None:
        return
    row, load = ROW_OF[thing.alone], thing.load
    for state in range(len(ALL_KINDS[load.thing.kind].states)):
        yield row, load_code(replace(load, thing=replace(load.thing, state=state)))
    for state in range(len(ALL_KINDS[thing.kind].states)):
        other = replace(thing.alone, state=state)
        if load.relation.is_possible_with(other.noun):
            yield ROW_OF[other.alone], load_code(load)
