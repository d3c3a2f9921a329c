"""Renders the templates of this package, and embeds thumbnails in pages."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from interleave.plugin import render

if TYPE_CHECKING:
    from PIL.Image import Image

THUMBNAIL = 160


def rendered(template: str, **values: Any) -> str:
    """Render a template of this package."""
    return render.page_template(template, package="interleave.train").render(values)


def data_url(image: Image) -> str:
    """Return a thumbnail as a data URL, so that the page needs no other file."""
    small = image.copy()
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    data = io.BytesIO()
    small.save(data, "WEBP", quality=85)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"
