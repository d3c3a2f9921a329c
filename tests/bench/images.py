"""Images for tests of benchmarks: one colour, any size."""

from __future__ import annotations

from pathlib import Path

from PIL import Image


def put_image(path: Path, colour: str = "red", size: tuple[int, int] = (24, 16)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path
