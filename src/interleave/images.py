"""Decode and encode images. All image bytes from outside are read here, and all are written here.

An image from outside (a user's file, a generator's reply) that is too large or in another format is refused
by its header, before decoding. The decoder of a PNG or JPEG receives only the parts that define the image,
because metadata and endless scans cost time and memory. The result is always plain RGB: upright, transparency
on white, without metadata, the first frame of an animation. If the file has content credentials (C2PA), the
image carries its bytes, so that a run can keep them.

Not detected: missing pixels in a JPEG with an end marker. libjpeg fills them with grey.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import threading
import warnings
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PIL import ExifTags, Image, ImageChops, UnidentifiedImageError

from interleave.errors import InputError
from interleave.files import open_regular, why

MAX_BYTES = 20_000_000
MAX_PIXELS = 16_000_000
MAX_SIDE = 8192
MAX_PARTS = 100_000
"""Chunks of a PNG, or segments of a JPEG."""
MAX_SCANS = 50
"""Maximum passes over a progressive JPEG. Encoders make about ten, and 30 bytes can cost a pass of 10 ms."""
MAX_EXIF_BYTES = 65_535
"""Maximum EXIF size, as in JPEG. Other formats can hold more, and reading it is unbounded."""

_DECODING = threading.Lock()
"""Lock for decoding, because silencing warnings affects the whole process."""

_CREDENTIALS = b"jumdc2pa"
"""Bytes that every file with content credentials has."""
_ORIGINALS: dict[int, tuple[weakref.ref[Image.Image], bytes]] = {}
"""Files with content credentials that images were decoded from, by identity: an edited copy has none."""
_DIGESTS: dict[int, tuple[weakref.ref[Image.Image], str]] = {}
"""Digests of unchanging images, by identity. An entry lives as long as its image."""
_LIMITS = f"at most {MAX_SIDE} a side and {MAX_PIXELS / 1e6:.0f} megapixels"
_MAGIC = re.compile(rb"(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<JPEG>\xff\xd8\xff)|(?P<WEBP>RIFF.{4}WEBP)", re.DOTALL)
_OTHER_KINDS = {
    b"gif8": "a GIF",
    b"bm": "a BMP",
    b"ii*\0": "a TIFF",
    b"mm\0*": "a TIFF",
    b"%pdf": "a PDF",
    b"<svg": "SVG text",
    b"<?xml": "SVG or other XML text",
    b"<html": "a web page",
    b"<!doctype": "a web page",
}
_PNG_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"eXIf", b"IDAT", b"IEND")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_RGB = 2
_SUB_FILTER = b"\x01"
"""Filter type of a row whose pixels are coded as differences from the pixel to the left."""
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_WHOLE = ((0, 0, 1, 1),)
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Passes of an interlaced PNG: first column, first row, and the strides."""
_JPEG_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")
"""Start of a segment or end of the image, but not coded pixels, a restart or padding."""
_JPEG_SEGMENTS = {*range(0xC0, 0xD0), 0xDA, 0xDB, 0xDD, 0xE0, 0xEE} - {0xC8}
"""Segments of the frame, its tables and scans, and JFIF and Adobe, which define the colour coding."""
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transposition that turns an image upright, by EXIF orientation."""


def read_image(path: str | os.PathLike[str]) -> Image.Image:
    """Return the image in a file. Raises `InputError` that names the file and the reason."""
    return decode_image(_read_regular_file(Path(path)), name=str(path))


def decode_image(
    data: bytes,
    *,
    name: str = "picture",
    max_bytes: int = MAX_BYTES,
    convert: Callable[[Image.Image], Image.Image] | None = None,
) -> Image.Image:
    """Decode image bytes. Raises `InputError` for data that is damaged, too large or not an image.

    `convert` converts the decoded image, by default with `as_rgb`.
    """
    if len(data) > max_bytes:
        raise InputError(
            f"{name}: {len(data):,} bytes is more than the {max_bytes:,} allowed: save it smaller"
        )
    if not data:
        raise InputError(f"{name}: the file is empty")
    magic = _MAGIC.match(data)
    if not magic:
        raise InputError(
            f"{name}: not a PNG, JPEG or WebP image (the file contains {_other_kind(data)}, "
            "whatever its name)"
        )
    # Decoders raise almost any exception on hostile bytes (struct.error, SyntaxError, …). Every failure means
    # that the bytes are not a usable image.
    try:
        with _DECODING, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the limits here are stricter than Pillow's bomb warning
            return _decode(data, str(magic.lastgroup), name, convert or as_rgb)
    except InputError:
        raise
    except Image.DecompressionBombError:
        raise InputError(f"{name}: the image is too large ({_LIMITS}): scale it down") from None
    except UnidentifiedImageError:
        raise InputError(f"{name}: the image is damaged: its header is invalid") from None
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise InputError(f"{name}: the image is damaged or cut off ({reason})") from error


def too_large(size: tuple[int, int]) -> bool:
    """Return whether an image of this size is refused, from users and generators."""
    return max(size) > MAX_SIDE or size[0] * size[1] > MAX_PIXELS


def as_rgb(image: Image.Image) -> Image.Image:
    """Return the image as plain RGB: transparency on white, 16-bit grey scaled to 8 bits, no metadata."""
    if image.mode.startswith("I"):
        image = _eight_bit_grey(image)
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        plain = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    else:
        plain = image.convert("RGB")
    plain.info = {}
    return with_original(plain, original_of(image))


def original_of(image: Image.Image) -> bytes | None:
    """Return the file that an image was decoded from, if that has content credentials."""
    found = _ORIGINALS.get(id(image))
    return found[1] if found is not None and found[0]() is image else None


def with_original(image: Image.Image, data: bytes | None) -> Image.Image:
    """Return the image, from now on with this file as the one that it was decoded from."""
    if data is not None:
        key = id(image)
        _ORIGINALS[key] = weakref.ref(image, lambda _: _ORIGINALS.pop(key, None)), data
    return image


def transparency_as_mask(image: Image.Image) -> Image.Image:
    """Return the transparency of an image as an RGB mask: transparent pixels are white, others black."""
    alpha = image.convert("RGBA").getchannel("A")
    return ImageChops.invert(alpha).convert("RGB")


def encode_png(image: Image.Image, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the image as PNG bytes with `metadata` as its only metadata.

    Every row uses the Sub filter and the fastest compression. Pillow's filter search and compression take
    three to ten times as long, for files that are at most a fifth smaller.
    """
    plain = as_rgb(image)
    left = Image.new("RGB", plain.size)
    left.paste(plain, (1, 0))
    rows, stride = ImageChops.subtract_modulo(plain, left).tobytes(), 3 * plain.width
    coded = b"".join(_SUB_FILTER + rows[at : at + stride] for at in range(0, len(rows), stride))
    parts = [
        _png_chunk(b"IHDR", struct.pack(">IIBBBBB", *plain.size, 8, _PNG_RGB, 0, 0, 0)),
        *(
            _png_chunk(b"iTXt", key.encode("latin-1") + bytes(5) + value.encode())
            for key, value in sorted((metadata or {}).items())
        ),
        _png_chunk(b"IDAT", zlib.compress(coded, 1)),
        _png_chunk(b"IEND", b""),
    ]
    return _PNG_SIGNATURE + b"".join(parts)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pixel_digest(image: Image.Image) -> str:
    """Return a digest of the pixels, independent of the file and its compression."""
    remembered = _DIGESTS.get(id(image))
    if remembered is not None and remembered[0]() is image:
        return remembered[1]
    header = f"{image.mode}:{image.width}x{image.height}:".encode()
    return hashlib.sha256(header + image.tobytes()).hexdigest()


def remember_digest(image: Image.Image) -> Image.Image:
    """Cache the digest of an image that is never changed again, and return the image."""
    key = id(image)
    _DIGESTS[key] = weakref.ref(image, lambda _: _DIGESTS.pop(key, None)), pixel_digest(image)
    return image


def white_canvas(size: tuple[int, int]) -> Image.Image:
    """Return a white image, which is the "before" of an image without a source."""
    return Image.new("RGB", size, "white")


def side_by_side(images: Sequence[Image.Image]) -> Image.Image:
    """Return one image with all images side by side on white, scaled to the height of the first."""
    height, gap = images[0].height, max(1, images[0].height // 32)
    scaled = [
        image.resize((max(1, round(image.width * height / image.height)), height), Image.Resampling.LANCZOS)
        for image in images
    ]
    sheet = white_canvas((sum(image.width + gap for image in scaled) - gap, height))
    left = 0
    for image in scaled:
        sheet.paste(image, (left, 0))
        left += image.width + gap
    return sheet


def fit_area(image: Image.Image, max_area: int) -> Image.Image:
    """Return the image, scaled down to at most `max_area` pixels with the same aspect ratio."""
    area = image.width * image.height
    if area <= max_area:
        return image
    scale = (max_area / area) ** 0.5
    # No side is less than 1, so the long side of a very thin image shrinks more.
    width = min(max(1, int(image.width * scale)), max_area)
    height = min(max(1, int(image.height * scale)), max_area // width)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _read_regular_file(path: Path) -> bytes:
    try:
        file = open_regular(path, most_bytes=MAX_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder, not an image") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({why(error)})") from None
    try:
        with file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({why(error)})") from None


def _decode(data: bytes, kind: str, name: str, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    parts = _png_parts(data) if kind == "PNG" else _jpeg_parts(data) if kind == "JPEG" else [data]
    with Image.open(io.BytesIO(b"".join(parts)), formats=(kind,)) as opened:
        _refuse_large(opened.size, name)
        if kind == "PNG":
            _refuse_missing_pixels(parts)
            _scale_transparent_colour(opened, depth=parts[1][16])
        opened.load()
        made = convert(_upright(opened))
    return with_original(made, data if _CREDENTIALS in data else None)


def _png_parts(data: bytes) -> list[bytes]:
    """Return the signature and the chunks that define the image. Pillow does not check pixel checksums."""
    parts, at = [data[:8]], 8
    for _ in range(MAX_PARTS):
        chunk = data[at : at + 12 + int.from_bytes(data[at : at + 4])]
        kind = chunk[4:8]
        at += len(chunk)
        if len(chunk) < 12:
            raise ValueError("it ends too early")
        if kind not in _PNG_CHUNKS:
            continue
        if zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:]):
            raise ValueError(f"the checksum of {kind.decode()} is wrong")
        if (kind == b"IHDR") != (len(parts) == 1):
            raise ValueError("it must begin with exactly one header")
        parts.append(chunk)
        if kind == b"IEND":
            return parts
    raise ValueError(f"it has more than {MAX_PARTS:,} parts")


def _refuse_missing_pixels(parts: list[bytes]) -> None:
    """Refuse a complete pixel stream that is too short. Pillow would leave the rest black."""
    width, height, depth, colour, _, _, interlaced = struct.unpack_from(">IIBBBBB", parts[1], 8)
    bits, needed = depth * _PNG_CHANNELS[colour], 0
    for left, top, right, down in _ADAM7 if interlaced else _WHOLE:
        columns, rows = -((left - width) // right), -((top - height) // down)
        if columns > 0 and rows > 0:
            needed += rows * (1 + (columns * bits + 7) // 8)  # each row begins with its filter type
    coded = b"".join(chunk[8:-4] for chunk in parts if chunk[4:8] == b"IDAT")
    if len(zlib.decompressobj().decompress(coded, needed)) < needed:
        raise ValueError("pixels are missing")


def _scale_transparent_colour(png: Image.Image, depth: int) -> None:
    """Scale the transparent level to 8 bits, as Pillow scales all other levels."""
    key = png.info.get("transparency")
    if key is not None and png.mode == "L" and depth < 8:
        png.info["transparency"] = key * 255 // (2**depth - 1)
    elif key is not None and png.mode == "RGB" and depth == 16:
        png.info["transparency"] = tuple(level >> 8 for level in key)


def _jpeg_parts(data: bytes) -> list[bytes]:
    """Return the start marker, the segments that define the image with the first EXIF, and the end marker."""
    parts, at, scans, has_exif = [data[:2]], 2, 0, False
    for _ in range(MAX_PARTS):
        found = _JPEG_MARKER.search(data, at)
        if not found:
            raise ValueError("it ends too early")
        if scans:
            parts.append(data[at : found.start()])  # the coded pixels
        marker = found.group()[1]
        if marker == 0xD9:
            return [*parts, found.group()]
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2])
        segment = data[found.start() : at]
        is_first_exif = marker == 0xE1 and segment[4:10] == b"Exif\0\0" and not has_exif
        if is_first_exif or marker in _JPEG_SEGMENTS:
            parts.append(segment)
        has_exif |= is_first_exif
        scans += marker == 0xDA
        if scans > MAX_SCANS:
            raise ValueError(f"it has more than {MAX_SCANS} scans")
    raise ValueError(f"it has more than {MAX_PARTS:,} parts")


def _refuse_large(size: tuple[int, int], name: str) -> None:
    if too_large(size):
        raise InputError(f"{name}: {size[0]}×{size[1]} pixels is too large ({_LIMITS}): scale it down")


def _upright(image: Image.Image) -> Image.Image:
    if len(image.info.get("exif", b"")) > MAX_EXIF_BYTES:
        return image
    try:
        turn = _UPRIGHT.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # EXIF is often damaged although the pixels are intact
        return image
    return image if turn is None else image.transpose(turn)


def _eight_bit_grey(image: Image.Image) -> Image.Image:
    """Return a 16-bit grey image scaled to 8 bits. convert() alone would clip."""
    grey = image.convert("I").point(lambda level: level / 257 + 0.5).convert("L")
    if (key := image.info.get("transparency")) is not None:
        grey.info["transparency"] = round(key / 257)
    return grey


def _other_kind(data: bytes) -> str:
    if data[4:8] == b"ftyp":
        return "HEIC, AVIF or a video"
    head = data[:256].lstrip().lower()
    return next((kind for start, kind in _OTHER_KINDS.items() if head.startswith(start)), "something else")
