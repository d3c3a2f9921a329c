"""Normal noise for a seed, equal to `torch.randn` on a CPU, so that a seed gives the same image."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from interleave_mini.runtime.sampling import random_words
from interleave_mini.runtime.sessions import Floats

GROUP = 16
"""Torch transforms numbers in groups of this many, the first half with the second."""


def normal_noise(shape: tuple[int, ...], seed: int) -> Floats:
    """Return `torch.randn(shape, generator=torch.Generator().manual_seed(seed))`, for at least 16 numbers."""
    count = math.prod(shape)
    random = np.random.RandomState(seed % 2**32)
    uniform = _uniform(random, count)
    whole = count - count % GROUP
    noise = np.empty(count, np.float32)
    noise[:whole] = _box_muller(uniform[:whole])
    if whole < count:  # the last group is drawn again, and overlaps the one before
        noise[-GROUP:] = _box_muller(_uniform(random, GROUP))
    return noise.reshape(shape)


def _uniform(random: np.random.RandomState, count: int) -> Floats:
    words = random_words(random, count) & np.uint32(2**24 - 1)
    return words.astype(np.float32) * np.float32(2.0**-24)


def _box_muller(uniform: Floats) -> Floats:
    groups: NDArray[np.float32] = uniform.reshape(-1, 2, GROUP // 2)
    radius = np.sqrt(np.float32(-2) * np.log(np.float32(1) - groups[:, 0]))
    angle = np.float32(2 * math.pi) * groups[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
