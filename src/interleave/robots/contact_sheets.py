"""Contact sheets: many frames of a video on one image, each with its number in a corner.

One image with twenty small frames costs a model far fewer tokens than twenty images.
"""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

COLUMNS, LINES = 5, 4
TILE = 224
"""The longer side of a frame on a sheet, in pixels."""
GAP = 4
INK, PAPER = (255, 221, 0), (0, 0, 0)


def contact_sheets(
    frames: Sequence[Image.Image], *, columns: int = COLUMNS, lines: int = LINES
) -> list[Image.Image]:
    """Return sheets with the frames in order, row by row, numbered from 1 across all sheets."""
    size = _tile_size(frames)
    on_a_sheet = columns * lines
    sheets = []
    for start in range(0, len(frames), on_a_sheet):
        some = frames[start : start + on_a_sheet]
        used = -(-len(some) // columns)
        sheet = Image.new("RGB", _sheet_size(size, min(columns, len(some)), used), PAPER)
        for place, frame in enumerate(some):
            line, column = divmod(place, columns)
            corner = (GAP + column * (size[0] + GAP), GAP + line * (size[1] + GAP))
            sheet.paste(_numbered(frame.resize(size), start + place + 1), corner)
        sheets.append(sheet)
    return sheets


def _tile_size(frames: Sequence[Image.Image]) -> tuple[int, int]:
    width, height = frames[0].size
    share = TILE / max(width, height)
    return max(1, round(width * share)), max(1, round(height * share))


def _sheet_size(tile: tuple[int, int], columns: int, lines: int) -> tuple[int, int]:
    return GAP + columns * (tile[0] + GAP), GAP + lines * (tile[1] + GAP)


def _numbered(frame: Image.Image, number: int) -> Image.Image:
    tile = frame.convert("RGB")
    brush, font = ImageDraw.Draw(tile), ImageFont.load_default(size=20)
    _, _, right, bottom = brush.textbbox((6, 3), str(number), font=font)
    brush.rectangle((0, 0, right + 6, bottom + 4), fill=PAPER)
    brush.text((6, 3), str(number), fill=INK, font=font)
    return tile
