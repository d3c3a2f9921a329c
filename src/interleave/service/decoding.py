"""Source pictures from bytes to pixels: one at a time, and only when there is memory for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from interleave.errors import InputError
from interleave.pictures import decode_picture
from interleave.service.memory import Share
from interleave.service.messages import RawPicture, Refusal
from interleave.service.picture_memory import EncodedPicture, decoding_bytes

T = TypeVar("T")


class Decoder:
    """Decodes the pictures of all requests of a server."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()

    async def decode(
        self, pictures: Sequence[EncodedPicture], share: Share, ends_at: float
    ) -> tuple[RawPicture, ...]:
        """The pixels of these pictures, once their memory is reserved; the share keeps what they take."""
        await share.reserve(decoding_bytes(pictures), ends_at)
        decoded = []
        for picture in pictures:
            async with self._one_at_a_time:
                decoded.append(await to_the_end(asyncio.to_thread(_decode, picture)))
        share.keep(sum(len(picture.data) for picture in decoded))
        return tuple(decoded)


async def to_the_end(work: Awaitable[T]) -> T:
    """Wait for a thread even when cancelled: it cannot be stopped, and its memory is in use until it ends."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


def _decode(picture: EncodedPicture) -> RawPicture:
    """A picture through the one door for pictures."""
    try:
        image = decode_picture(picture.data, name=picture.name)
    except InputError as error:
        raise Refusal(str(error), parameter=picture.name) from None
    return RawPicture(image.width, image.height, image.tobytes())
