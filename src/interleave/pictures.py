"""Pictures in and out: the only door through which picture bytes enter, and the one way they are written.

A picture from outside (a user's file, a generator's reply) is refused by its header, before any pixel is
decoded, when it is too large or of a format we do not take. What passes becomes one plain RGB picture:
turned upright, transparency laid on white, metadata dropped, the first frame of an animation.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path

from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError

from interleave.errors import InputError

MAX_BYTES = 20_000_000
MAX_PIXELS = 16_000_000
MAX_SIDE = 8192
FORMATS = ("PNG", "JPEG", "WEBP")


def read_picture(path: str | os.PathLike[str]) -> Image.Image:
    """Open a user's picture file; raises `InputError` that names the file and the reason."""
    return decode_picture(_read_regular_file(Path(path)), name=str(path))


def decode_picture(data: bytes, *, name: str = "picture") -> Image.Image:
    """Decode picture bytes to RGB; raises `InputError` for all that is not a sound, small picture."""
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{name}: {len(data):,} bytes is more than the {MAX_BYTES:,} allowed: save it smaller"
        )
    if not data:
        raise InputError(f"{name}: the file is empty")
    # Decoders raise almost anything on hostile bytes (struct.error, SyntaxError, …): at this border every
    # failure means the same thing, that the bytes are not a picture we can use.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the caps below are stricter than Pillow's bomb warning
            with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
                _refuse_large(opened.size, name)
                opened.load()
                return as_rgb(ImageOps.exif_transpose(opened))
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(f"{name}: not a PNG, JPEG or WebP picture ({_guess(data)})") from None
    except Exception as error:
        raise InputError(f"{name}: the picture is damaged or cut off ({error})") from error


def as_rgb(image: Image.Image) -> Image.Image:
    """The picture as plain RGB: transparency on white, 16-bit greys scaled to 8, no metadata."""
    if image.mode == "RGB" and "transparency" not in image.info:
        plain = image
    elif image.mode.startswith("I"):  # 16-bit grey: convert() would clip instead of scaling
        plain = image.convert("I").point(lambda level: level / 257).convert("L").convert("RGB")
    elif image.has_transparency_data:
        rgba = image.convert("RGBA")
        plain = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    else:
        plain = image.convert("RGB")
    bare = plain.copy()
    bare.info = {}
    return bare


def encode_png(image: Image.Image, metadata: Mapping[str, str] | None = None) -> bytes:
    """The picture as PNG bytes, with text metadata that other tools can read."""
    info = PngImagePlugin.PngInfo()
    for key, value in (metadata or {}).items():
        info.add_itxt(key, value)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", pnginfo=info, compress_level=6)
    return buffer.getvalue()


def pixel_digest(image: Image.Image) -> str:
    """A name for what a picture shows, whatever file it came from and however that was compressed."""
    header = f"{image.mode}:{image.width}x{image.height}:".encode()
    return hashlib.sha256(header + image.tobytes()).hexdigest()


def white_canvas(size: tuple[int, int]) -> Image.Image:
    """The "before" of a picture drawn from nothing."""
    return Image.new("RGB", size, "white")


def fit_area(image: Image.Image, max_area: int) -> Image.Image:
    """The picture, scaled down if needed to at most `max_area` pixels, keeping its shape."""
    area = image.width * image.height
    if area <= max_area:
        return image
    scale = (max_area / area) ** 0.5
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def _read_regular_file(path: Path) -> bytes:
    try:
        # O_NONBLOCK: a named pipe must be refused, not waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be opened ({_reason(error)})") from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{path}: is a folder, not a picture")
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is not a regular file")
        if status.st_size > MAX_BYTES:
            raise InputError(
                f"{path}: {status.st_size:,} bytes is more than the {MAX_BYTES:,} allowed: save it smaller"
            )
        return file.read(MAX_BYTES + 1)


def _refuse_large(size: tuple[int, int], name: str) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise InputError(f"{name}: {width}×{height} is not a picture")
    if max(size) > MAX_SIDE or width * height > MAX_PIXELS:
        raise InputError(
            f"{name}: {width}×{height} pixels is too large (at most {MAX_SIDE} a side and "
            f"{MAX_PIXELS / 1e6:.0f} megapixels): scale it down"
        )


def _guess(data: bytes) -> str:
    head = data[:256].lstrip().lower()
    if head.startswith((b"<svg", b"<?xml", b"<!doctype", b"<html")):
        return "it is SVG or HTML text"
    if head.startswith(b"%pdf"):
        return "it is a PDF"
    return "its contents are of another kind, whatever its name says"


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
