"""A document as a fragment of HTML, for the output of a notebook cell. All text is escaped."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST_SIDE = 800
"""Pixels of an image in a cell: a saved notebook contains them all."""
PIXEL_ART_SIDE = 320


@dataclass(frozen=True)
class CellStep:
    """One step, as a cell shows it."""

    name: str = ""
    text: str = ""
    alt: str = ""
    image: Image | None = None
    note: str = ""


def cell_html(title: str, steps: Iterable[CellStep], note: str = "") -> str:
    """Return a document as HTML without script or style sheet, which viewers of notebooks remove."""
    shown = "".join(map(_step_html, steps))
    said = f"<p><small>{escape(note)}</small></p>" if note else ""
    return f'<div style="max-width:42em"><h2>{escape(title)}</h2>{shown}{said}</div>'


def _step_html(step: CellStep) -> str:
    parts = [f"<h4>{escape(step.name)}</h4>"] if step.name else []
    parts += [f"<p>{escape(step.text)}</p>"] if step.text else []
    if step.image is not None:
        look = ";image-rendering:pixelated" if max(step.image.size) <= PIXEL_ART_SIDE else ""
        parts.append(
            f'<img src="{_data_url(step.image)}" alt="{escape(step.alt or step.text)}" '
            f'style="width:100%;max-width:{LONGEST_SIDE // 2}px{look}">'
        )
    parts += [f"<p><small>{escape(step.note)}</small></p>"] if step.note else []
    return "".join(parts)


def _data_url(image: Image) -> str:
    small = image.copy()
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=85)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
