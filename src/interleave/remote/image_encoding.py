"""Images in requests and responses: the sources are checked and encoded, the results decoded."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from interleave import BackendError, Failure, GeneratorCapabilities, ImageRequest, InputError
from interleave.plugin import images
from interleave.remote.http_errors import bad_reply

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_IMAGE_BYTES = 48_000_000
"""What fits, as base64, into the largest response that is read."""
SMALLEST_SIDE = 8
"""No model draws less; some services send a single pixel instead of an error."""
_DATA_URL = re.compile(r"\s{0,100}data:[\w/+.-]{0,100};base64,", re.IGNORECASE)


def check_sources(where: str, request: ImageRequest, capabilities: GeneratorCapabilities) -> None:
    """Refuse too many sources, or none where one is needed, before anything is sent."""
    count = len(request.sources)
    if count > capabilities.max_sources:
        raise BackendError(
            f"{where} takes at most {capabilities.max_sources} sources, not {count}", kind=Failure.INVALID
        )
    if not count and not capabilities.text_to_image:
        raise BackendError(f"{where} only edits: it needs an image to start from", kind=Failure.INVALID)


def png_base64(image: Image) -> str:
    return base64.b64encode(images.encode_png(image)).decode("ascii")


def data_url(image: Image) -> str:
    return f"data:image/png;base64,{png_base64(image)}"


def image_from_base64(text: object, *, where: str) -> Image:
    """The image in a response; raises `BackendError` for anything but a whole image of allowed size."""
    if not isinstance(text, str) or not text:
        raise bad_reply(where, "there is no image in it")
    try:
        found = _DATA_URL.match(text)
        data = base64.b64decode(text[found.end() if found else 0 :].strip(), validate=True)
    except (binascii.Error, ValueError):
        raise bad_reply(where, "its image is not base64") from None
    return image_from_bytes(data, where=where)


def image_from_bytes(data: bytes, *, where: str) -> Image:
    try:
        image = images.decode_image(data, name="its image", max_bytes=MAX_IMAGE_BYTES)
    except InputError as error:
        raise bad_reply(where, str(error)) from None
    if min(image.size) < SMALLEST_SIDE:
        raise bad_reply(where, f"its image has {image.width}×{image.height} pixels")
    return image
