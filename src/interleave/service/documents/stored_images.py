"""Placeholders for images of a run folder in JSON; they are encoded when the JSON is sent."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interleave.plugin import ImageStore

if TYPE_CHECKING:
    from PIL.Image import Image

ENCODED_COPIES = 3
"""Copies of an image held until it is sent: its file, its base64 text and the JSON."""
REENCODING_BYTES = 12
"""Bytes per pixel to read an image, scale it down and encode it again."""
QUALITIES = (90, 75)
SMALLER = 0.75
SMALLEST_SIDE = 16


@dataclass(frozen=True)
class StoredImage:
    """An image in a run folder, as a placeholder for its base64 text."""

    name: str
    prefix: str = ""
    """Text before the base64 text, as in a data: URL."""

    def value(self, store: ImageStore) -> Any:
        """Read the file and return its JSON value."""
        return self.prefix + base64.b64encode(store.read(self.name)).decode()

    def sending_bytes(self, store: ImageStore) -> int:
        """Return the memory needed to send it."""
        return ENCODED_COPIES * store.bytes_of(self.name)


@dataclass(frozen=True)
class FittedImage(StoredImage):
    """An image of at most `most_bytes`: a larger PNG is sent as JPEG, scaled down if needed."""

    most_bytes: int | None = None

    def media(self, store: ImageStore) -> tuple[str, str]:
        """Return the media type and the base64 text."""
        data = store.read(self.name)
        if self.most_bytes is None or len(data) <= self.most_bytes:
            return "image/png", base64.b64encode(data).decode()
        return "image/jpeg", base64.b64encode(as_jpeg(store.get(self.name), self.most_bytes)).decode()

    def sending_bytes(self, store: ImageStore) -> int:
        from PIL import Image

        size = store.bytes_of(self.name)
        if self.most_bytes is None or size <= self.most_bytes:
            return super().sending_bytes(store)
        with store.open(self.name) as file, Image.open(file) as image:  # reads only the header
            return size + REENCODING_BYTES * image.width * image.height


@dataclass(frozen=True)
class DataUrl(FittedImage):
    """An image as a placeholder for its `data:` URL."""

    def value(self, store: ImageStore) -> Any:
        media_type, text = self.media(store)
        return f"data:{media_type};base64,{text}"


@dataclass(frozen=True)
class InlineData(FittedImage):
    """An image as a placeholder for Google's `inlineData`."""

    def value(self, store: ImageStore) -> Any:
        media_type, text = self.media(store)
        return {"mimeType": media_type, "data": text}


def as_jpeg(image: Image, most_bytes: int) -> bytes:
    """Return the image as a JPEG of at most `most_bytes`: reduce the quality first, then the size."""
    from PIL import Image as Pillow

    whole = image = image.convert("RGB")
    factor = 1.0
    while True:
        for quality in QUALITIES:
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=quality)
            if buffer.tell() <= most_bytes or max(image.size) <= SMALLEST_SIDE:
                return buffer.getvalue()
        factor *= SMALLER
        size = (max(1, round(whole.width * factor)), max(1, round(whole.height * factor)))
        image = whole.resize(size, Pillow.Resampling.LANCZOS)
