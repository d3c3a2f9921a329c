"""Confidence intervals of shares."""

from __future__ import annotations

import math

Z = 1.959964
"""For 95 %."""


def wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of so many; everything is possible where there are none."""
    if not count:
        return 0.0, 1.0
    square = Z**2 / count
    middle = (share + square / 2) / (1 + square)
    half = Z / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)
