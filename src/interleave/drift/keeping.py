"""Two remedies against drift that need no call: what an edit was not asked to change comes from the source.

`keep_unchanged` puts the changed part into the source picture. `align_colours` leaves the drawn picture and
corrects its low frequencies (brightness, tint, gradients) by what the unchanged part says about them.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from interleave.drift.unchanged import Pixels, as_image, as_pixels, changed_mask, weights

MOST_CHANGED = 0.6
"""Where more of the picture has changed, the edit was about the whole of it: nothing is kept."""
LOW = 1 / 10
"""The radius of what counts as a low frequency, as a share of the shorter side."""


def keep_unchanged(source: Image.Image, drawn: Image.Image) -> Image.Image:
    """The drawn picture where it has changed, and the source everywhere else."""
    changed = _changed(source, drawn)
    if changed is None:
        return drawn
    return as_image(as_pixels(source) * (1 - changed) + as_pixels(drawn) * changed)


def align_colours(source: Image.Image, drawn: Image.Image) -> Image.Image:
    """The drawn picture, its low frequencies corrected to those of the source where nothing has changed.

    Near a change, where the source says nothing, the correction of the surroundings is used.
    """
    changed = _changed(source, drawn)
    if changed is None:
        return drawn
    kept = 1 - changed
    wanted = _low((as_pixels(source) - as_pixels(drawn)) * kept)
    known = _low(np.repeat(kept, 3, axis=2) * 255) / 255
    return as_image(as_pixels(drawn) + wanted / np.maximum(known, 0.05))


def _changed(source: Image.Image, drawn: Image.Image) -> Pixels | None:
    """How much each pixel has changed; None where the pictures cannot be compared, or little is left."""
    if source.size != drawn.size:
        return None
    changed = weights(changed_mask(source, drawn))
    return None if float(changed.mean()) > MOST_CHANGED else changed


def _low(values: Pixels) -> Pixels:
    """The low frequencies of signed values, by three box blurs in a row: close to a Gaussian one."""
    radius = max(1, round(LOW * min(values.shape[:2])))
    for axis in (0, 1):
        for _ in range(3):
            values = _box(values, radius, axis)
    return values


def _box(values: Pixels, radius: int, axis: int) -> Pixels:
    """The mean over a window along one axis; the picture is mirrored at its edges."""
    around = [(0, 0)] * values.ndim
    around[axis] = (radius + 1, radius)
    sums = np.cumsum(np.pad(values, around, mode="symmetric"), axis=axis, dtype=np.float64)
    length, window = values.shape[axis], 2 * radius + 1
    ahead = np.take(sums, range(window, window + length), axis=axis)
    behind = np.take(sums, range(length), axis=axis)
    return ((ahead - behind) / window).astype(np.float32)
