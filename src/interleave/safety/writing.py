"""`writing`: rejects images with writing that their prompt does not ask for, before the critic sees them.

Writing in an image may be a mistake of the generator, or words that address the critic.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from PIL.Image import Image

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import entry_points, one_line

SURE = 0.7
"""Least confidence of a recognised line."""
MOST_LETTERS = 3
"""Letters in an image that may be misread shapes."""
INSTALL = 'pip install "interleavethinker[ocr]"'


class NoWriting:
    """Reads images with rapidocr, offline."""

    redraws = True

    def __init__(self, rest: str) -> None:
        if rest:
            raise ConfigurationError(f"safety=writing:{rest}: 'writing' takes nothing after its name")
        for package in ("rapidocr", "onnxruntime"):
            if not entry_points.is_importable(package):
                raise MissingDependency(
                    f"safety=writing needs the package {package!r}, which is not installed. "
                    f"Install it with: {INSTALL}"
                )

    @cached_property
    def _reader(self) -> Any:
        from rapidocr import RapidOCR

        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        return RapidOCR(params={"Global.log_level": "error"})

    async def problem(self, subject: str, text: str, images: Sequence[Image]) -> str | None:
        """Return the writing in an image, unless its prompt has these words."""
        if subject != "image":
            return None
        for image in images:
            lines = await asyncio.to_thread(self.lines_in, image)
            asked = _letters(text)
            stray = [line for line in lines if _letters(line) not in asked]
            if sum(len(_letters(line)) for line in stray) > MOST_LETTERS:
                return f"the image has writing that nobody asked for: {one_line(' / '.join(stray), 200)!r}"
        return None

    def lines_in(self, image: Image) -> list[str]:
        """Return the lines of writing that are recognised with confidence."""
        found = self._reader(np.asarray(image.convert("RGB"))[:, :, ::-1])
        lines = zip(found.txts or (), found.scores or (), strict=True)
        return [line for line, score in lines if score >= SURE]


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())
