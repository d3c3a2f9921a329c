"""Images of a run folder inside JSON that is still to be sent: each knows what stands in its place."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interleave.plugin import ImageStore

if TYPE_CHECKING:
    from PIL.Image import Image

ENCODED_COPIES = 3
"""Copies of an image until it is sent: its file, its base64 text, and the JSON around it."""
REDRAWN_BYTES = 12
"""Bytes a pixel to read an image, scale it down and encode it again."""
QUALITIES = (90, 75)
SMALLER = 0.75
SMALLEST_SIDE = 16


@dataclass(frozen=True)
class StoredImage:
    """An image in a run folder, in place of its base64 text."""

    name: str
    prefix: str = ""
    """What stands before the base64 text, as in a data: URL."""

    def value(self, store: ImageStore) -> Any:
        """What stands in the JSON; reads the file."""
        return self.prefix + base64.b64encode(store.path(self.name).read_bytes()).decode()

    def sending_bytes(self, store: ImageStore) -> int:
        """Memory that it takes to send it."""
        return ENCODED_COPIES * store.path(self.name).stat().st_size


@dataclass(frozen=True)
class FittedImage(StoredImage):
    """An image of at most so many bytes: a PNG file that has more is sent as JPEG, smaller if need be."""

    most_bytes: int | None = None

    def media(self, store: ImageStore) -> tuple[str, str]:
        """The media type, and the base64 text."""
        data = store.path(self.name).read_bytes()
        if self.most_bytes is None or len(data) <= self.most_bytes:
            return "image/png", base64.b64encode(data).decode()
        return "image/jpeg", base64.b64encode(as_jpeg(store.get(self.name), self.most_bytes)).decode()

    def sending_bytes(self, store: ImageStore) -> int:
        from PIL import Image

        size = store.path(self.name).stat().st_size
        if self.most_bytes is None or size <= self.most_bytes:
            return super().sending_bytes(store)
        with Image.open(store.path(self.name)) as image:  # reads no more than the header
            return size + REDRAWN_BYTES * image.width * image.height


@dataclass(frozen=True)
class DataUrl(FittedImage):
    """An image in place of its `data:` URL."""

    def value(self, store: ImageStore) -> Any:
        media_type, text = self.media(store)
        return f"data:{media_type};base64,{text}"


@dataclass(frozen=True)
class InlineData(FittedImage):
    """An image in place of Google's `inlineData`."""

    def value(self, store: ImageStore) -> Any:
        media_type, text = self.media(store)
        return {"mimeType": media_type, "data": text}


def as_jpeg(image: Image, most_bytes: int) -> bytes:
    """The image as JPEG of at most so many bytes: first of lower quality, then smaller."""
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
