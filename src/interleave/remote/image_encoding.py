"""Images in requests and responses: check and encode sources, decode results."""

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
"""The largest image that fits, as base64, into a response of `IMAGE_BYTES`."""
SMALLEST_SIDE = 8
"""No model generates smaller images; some services send a single pixel instead of an error."""
_DATA_URL = re.compile(r"\s{0,100}data:[\w/+.-]{0,100};base64,", re.IGNORECASE)


def check_sources(where: str, request: ImageRequest, capabilities: GeneratorCapabilities) -> None:
    """Reject a request with too many sources, or without a required one, before anything is sent."""
    count = len(request.sources)
    if count > capabilities.max_sources:
        raise BackendError(
            f"{where} takes at most {capabilities.max_sources} sources, not {count}", kind=Failure.INVALID
        )
    if not count and not capabilities.text_to_image:
        raise BackendError(f"{where} only edits: the request needs a source image", kind=Failure.INVALID)


def png_base64(image: Image) -> str:
    return base64.b64encode(images.encode_png(image)).decode("ascii")


def data_url(image: Image) -> str:
    return f"data:image/png;base64,{png_base64(image)}"


def image_from_base64(text: object, *, where: str) -> Image:
    """Decode the image of a response; raise `BackendError` unless it is complete and of an allowed size."""
    if not isinstance(text, str) or not text:
        raise bad_reply(where, "it has no image")
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
