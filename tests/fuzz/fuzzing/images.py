"""Image bytes of every kind, through the one door for them."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from functools import cache

from PIL import Image

from fuzzing import attempt, scratch, spare_text, target
from interleave.errors import BackendError, InputError
from interleave.images import (
    MAX_SIDE,
    as_rgb,
    decode_image,
    encode_png,
    pixel_digest,
    read_image,
    too_large,
)
from interleave.remote import image_encoding as encoding
from interleave.service.http import request_bodies as bodies
from interleave.service.http.decoding import RawImage
from interleave.service.http.refusals import Refusal

PNG = b"\x89PNG\r\n\x1a\n"
WORDS = (
    *(PNG, b"IHDR", b"IDAT", b"IEND", b"PLTE", b"tRNS", b"eXIf", b"iTXt", b"acTL", b"fdAT", b"\xff\xd8\xff"),
    *(
        b"\xff\xc0",
        b"\xff\xc2",
        b"\xff\xc4",
        b"\xff\xda\x00\x0c",
        b"\xff\xdb",
        b"\xff\xd9",
        b"\xff\xe1",
        b"Exif\0\0",
    ),
    *(
        b"RIFF",
        b"WEBPVP8 ",
        b"VP8L",
        b"VP8X",
        b"ANIM",
        b"ANMF",
        b"II*\0",
        b"MM\0*",
        b"GIF89a",
        b"\x00\x00\xff\xff",
    ),
)


@cache
def seeds() -> list[bytes]:
    ramp = Image.linear_gradient("L").resize((23, 17))
    colour = Image.merge(
        "RGB", (ramp, ramp.rotate(90, expand=False), ramp.transpose(Image.Transpose.ROTATE_180))
    )
    see_through = colour.copy()
    see_through.putalpha(ramp)
    made = [
        saved(colour, "PNG"),
        saved(see_through, "PNG"),
        saved(ramp, "PNG", transparency=3),
        saved(colour.quantize(16), "PNG", transparency=2),
        saved(ramp.convert("I;16"), "PNG"),
        saved(ramp.convert("1"), "PNG"),
        saved(colour, "PNG", exif=turned(6)),
        encode_png(colour, {"prompt": "a frog"}),
        saved(colour, "JPEG", quality=80),
        saved(colour, "JPEG", progressive=True, exif=turned(8)),
        saved(colour.convert("CMYK"), "JPEG"),
        saved(ramp, "JPEG"),
        saved(colour, "WEBP", quality=60, exif=turned(3)),
        saved(see_through, "WEBP", lossless=True),
        saved(colour, "WEBP", save_all=True, append_images=[colour.rotate(180)]),
    ]
    return made


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def png_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """The chunks of a PNG, by kind and contents; empty where it is none."""
    chunks, at = [], len(PNG)
    while data.startswith(PNG) and at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += size + 12
    return chunks


def png_of(chunks: list[tuple[bytes, bytes]]) -> bytes:
    return PNG + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def change_chunk(data: bytes, where: int, how: int, what: int) -> bytes:
    """A chunk with another byte, twice, dropped, moved or renamed, its checksum right again."""
    chunks = png_chunks(data)
    if not chunks:
        return data
    place = where % len(chunks)
    kind, body = chunks[place]
    match how % 5:
        case 0 if body:
            at = what % len(body)
            chunks[place] = (kind, body[:at] + bytes([body[at] ^ (1 << how % 8)]) + body[at + 1 :])
        case 1:
            chunks.insert(what % len(chunks), chunks[place])
        case 2:
            del chunks[place]
        case 3:
            chunks[place] = ((b"IDAT", b"PLTE", b"tRNS", b"eXIf", b"zTXt", b"acTL")[what % 6], body)
        case 4:
            chunks[place] = (kind, body[: what % (len(body) + 1)])
    return png_of(chunks)


def change_header(data: bytes, where: int, how: int, what: int) -> bytes:
    """Another size, depth, kind of colour or interlacing in the header of a PNG."""
    chunks = png_chunks(data)
    if not chunks or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 13:
        return data
    fields = list(struct.unpack(">IIBBBBB", chunks[0][1]))
    values = (0, 1, 2, 3, 4, 6, 8, 16, 17, 300, 8192, 8193, 2**31 - 1, 2**32 - 1)
    place = where % 7
    fields[place] = values[what % len(values)] if place < 2 else values[what % 9]
    chunks[0] = (b"IHDR", struct.pack(">IIBBBBB", *fields))
    return png_of(chunks)


def change_segment(data: bytes, where: int, how: int, what: int) -> bytes:
    """A segment of a JPEG twice, dropped, or with another length."""
    marks = [at for at in range(len(data) - 1) if data[at] == 0xFF and data[at + 1] not in (0, 0xFF)]
    if not data.startswith(b"\xff\xd8") or len(marks) < 2:
        return data
    place = where % (len(marks) - 1)
    start, end = marks[place], marks[place + 1]
    match how % 3:
        case 0:
            return data[:end] + data[start:]
        case 1:
            return data[:start] + data[end:]
    return data[: start + 2] + what.to_bytes(2) + data[start + 4 :]


MUTATORS = {
    "change a chunk": change_chunk,
    "change the header": change_header,
    "change a segment": change_segment,
}


@target(seeds, words=WORDS, examples=100, mutators=MUTATORS)
def image(data: bytes) -> bool:
    """A plain RGB image within the limits, or an `InputError`."""
    image = attempt(lambda: decode_image(data, name="a.png"), errors=InputError)
    if not isinstance(image, Image.Image):
        return False
    assert image.mode == "RGB" and image.info == {} and not too_large(image.size)
    assert min(image.size) > 0 and max(image.size) <= MAX_SIDE
    if image.width * image.height <= 1_000_000:
        again = decode_image(encode_png(image, {"note": "x"}))
        assert again.size == image.size and again.tobytes() == image.tobytes()
        assert pixel_digest(again) == pixel_digest(image) and as_rgb(again).tobytes() == image.tobytes()
    return True


@target(lambda: seeds()[:2] + seeds()[8:9], words=WORDS, examples=12, mutators=MUTATORS)
def image_file(data: bytes) -> bool:
    """A file says the same as its bytes."""
    with scratch() as folder:
        path = folder / "a.png"
        path.write_bytes(data)
        read = attempt(lambda: read_image(path), errors=InputError)
        decoded = attempt(lambda: decode_image(data), errors=InputError)
        assert bool(read) == bool(decoded)
        return bool(read)


def coded() -> list[bytes]:
    plain = [base64.b64encode(data) for data in (seeds()[0], seeds()[8])]
    return [*plain, b"data:image/png;base64," + plain[0], b"DATA:IMAGE/JPEG;BASE64," + plain[1]]


@target(coded, words=(b"data:image/png;base64,", b"=", b"==", b"\n", b"-", b"_", b"https://"), examples=24)
def base64_image(data: bytes) -> bool:
    """Images as text, from a client of our server and from a server of ours."""
    text = spare_text(data)
    sent = attempt(lambda: bodies.image_from_base64(text, name="image"), errors=Refusal)
    answered = attempt(lambda: encoding.image_from_base64(text, where="x"), errors=BackendError)
    if isinstance(sent, RawImage):
        assert len(sent.data) == sent.width * sent.height * 3
    if isinstance(answered, Image.Image):
        assert answered.mode == "RGB"
    return bool(sent) and bool(answered)
