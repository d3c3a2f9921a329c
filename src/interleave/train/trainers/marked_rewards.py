"""Rewards that say more than their value, for a trainer that passes on nothing but one float32 for a sample.

To find out how many of the redraws needed have failed, one must know which rewards come from a redraw and
which samples have none. The last bit of the float32 is 1 for a redraw, which changes a reward by less than a
ten millionth; a failure is a number that no formula gives, small enough to leave means as they are.
"""

from __future__ import annotations

import struct

FAILED = 2.0**-100
_FLOAT, _BITS = struct.Struct("<f"), struct.Struct("<I")


def marked(total: float | None, *, drawn: bool) -> float:
    """The number that stands for a reward, or for its failure."""
    if total is None:
        return FAILED
    bits: int = _BITS.unpack(_FLOAT.pack(total))[0]
    return float(_FLOAT.unpack(_BITS.pack(bits | 1 if drawn else bits & ~1))[0])


def unmarked(value: float) -> tuple[float | None, bool]:
    """The reward that a number stands for, None for a failure; and whether it comes from a redraw."""
    if value == FAILED:
        return None, False
    return value, bool(_BITS.unpack(_FLOAT.pack(value))[0] & 1)
