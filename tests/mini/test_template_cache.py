"""The reader's templates: painted in parts and kept, equal to what is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from interleave_mini.reader import template_cache
from interleave_mini.reader.arrays import reduced
from interleave_mini.reader.template_cache import FINE, Painted, painted
from interleave_mini.world.backgrounds import background
from interleave_mini.world.carrying import layout
from interleave_mini.world.drawing import RELATIONS, ROW_OF, THINGS
from interleave_mini.world.scene import Relation, Size, Thing
from interleave_mini.world.sprites import in_all_colours
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS


@pytest.mark.parametrize(("kind", "state"), [("cat", 0), ("door", 1), ("tree", 2), ("guitar", 0)])
def test_the_rows_of_a_noun_are_its_drawings(kind: str, state: int) -> None:
    pixels = painted().as_pixels()
    thing = Thing(kind, "red", Size.LARGE, state)
    for size in Size:
        rows = [ROW_OF[Thing(kind, colour, size, state)] for colour in ALL_COLOURS]
        drawn = reduced(in_all_colours(thing.noun, size).astype(np.float32), FINE)
        assert np.array_equal(pixels[rows], drawn)


def test_the_layouts_are_those_of_the_world() -> None:
    table = painted().layouts.reshape(-1, len(RELATIONS), 6)
    chair = Thing("chair", "brown")
    drawn, *numbers = layout(chair, Relation.ON)
    assert table[ROW_OF[chair], RELATIONS.index(Relation.ON)].tolist() == [ROW_OF[drawn], *numbers]
    assert not table[ROW_OF[chair], RELATIONS.index(Relation.IN)].any()
    assert len(table) == len(painted().sprites) > len(THINGS)
    assert np.array_equal(painted().backgrounds[3], background(ALL_BACKGROUNDS[3]))


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half a file", None])
def test_a_damaged_file_is_painted_again_and_a_whole_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
) -> None:
    small = Painted(np.ones((2, 3), np.uint16), np.ones((2, 6), np.int16), np.ones((1, 4), np.uint8))
    calls: list[int] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(template_cache, "_paint", lambda: calls.append(1) or small)
    file = template_cache.cache_folder() / f"mini-templates-{template_cache.digest()}.npz"
    if damage is not None:
        file.parent.mkdir()
        file.write_bytes(damage)
    for _ in range(2):
        found = painted.__wrapped__()
        assert all(np.array_equal(one, other) for one, other in zip(found, small, strict=True))
    assert calls == [1]
    assert [each.name for each in file.parent.iterdir()] == [file.name]
