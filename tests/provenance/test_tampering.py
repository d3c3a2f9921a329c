"""Flipped bytes: `perf/tampering.py` does the same with 10,000 of each format and lists the regions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from interleave import InputError, export
from interleave.images import decode_image, pixel_digest
from interleave.provenance.copies import write_signed_copies
from interleave.provenance.reading import credentials_of


def shown(path: Path, data: bytes) -> str:
    if path.suffix not in (".png", ".webp"):
        return ""
    try:
        return pixel_digest(decode_image(data))
    except InputError:
        return "damaged"


@pytest.mark.parametrize("name", ["png", "webp", "pdf", "epub"])
def test_a_flipped_byte_that_changes_a_pixel_or_a_statement_is_found(
    name: str, made_run: Path, tmp_path: Path
) -> None:
    if name in ("png", "webp"):
        *_, path = write_signed_copies(made_run, tmp_path, webp=name == "webp")
    else:
        path = export(made_run, name, out=tmp_path, sign="self")
    data, dice = path.read_bytes(), random.Random(3)
    whole = credentials_of(data)
    states = set()
    for _ in range(60):
        place = dice.randrange(len(data))
        altered = data[:place] + bytes([data[place] ^ dice.randrange(1, 256)]) + data[place + 1 :]
        found = credentials_of(altered)
        states.add(found.state)
        if found.state == "intact":
            assert (found.claim, shown(path, altered)) == (whole.claim, shown(path, data)), place
    assert "altered" in states
