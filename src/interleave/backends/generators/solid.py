"""The test double `solid`: draws a card for every step on the previous picture, without a model or fonts.

With it everything around a generator can be run and tested. The same request gives the same pixels on every
machine, another prompt, seed or source gives others, and the cards show which step drew what.
"""

from __future__ import annotations

import asyncio
import hashlib
from functools import cache, lru_cache
from textwrap import wrap

from PIL import Image, ImageColor, ImageDraw, ImageFont
from pydantic import Field

from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.config.specs import BackendOptions, Spec
from interleave.errors import BackendError, ConfigurationError
from interleave.images import pixel_digest

MAX_SOURCES = 16
CARDS = 6
"""Cards on a picture; the seventh step starts again at the top."""
LINES, LINE_CHARACTERS, LINE_HEIGHT = 3, 30, 10
STAMP_CELLS = 16


class SolidGenerator:
    """Paints a gradient for a first picture, and for every step a card with its number and words."""

    class Options(BackendOptions):
        delay: float = Field(default=0.0, ge=0, le=3600)
        """Seconds to wait before each picture, to simulate a slow model."""
        size: int = Field(default=512, ge=64, le=2048)

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: 'solid' takes no model and no address, only options (?delay=, ?size=)"
            )
        self.options = options
        self.capabilities = GeneratorCapabilities(
            max_sources=MAX_SOURCES, price_per_image=0.0, concurrency=options.concurrency
        )

    async def generate(self, request: ImageRequest) -> Image.Image:
        if len(request.sources) > MAX_SOURCES:
            raise BackendError(f"'solid' takes at most {MAX_SOURCES} sources, not {len(request.sources)}")
        if self.options.delay:
            await asyncio.sleep(self.options.delay)
        size = (self.options.size, self.options.size)
        if request.sources:
            canvas = request.sources[-1].convert("RGB").resize(size, Image.Resampling.BOX)
        else:
            canvas = _gradient(_colour(request.prompt, 62), _colour(f"{request.prompt}/low", 86), size)
        _lay_card(canvas, request)
        return canvas


def _gradient(top: tuple[int, int, int], bottom: tuple[int, int, int], size: tuple[int, int]) -> Image.Image:
    ramp = Image.linear_gradient("L").resize(size, Image.Resampling.BILINEAR)
    return Image.composite(Image.new("RGB", size, bottom), Image.new("RGB", size, top), ramp)


def _lay_card(canvas: Image.Image, request: ImageRequest) -> None:
    unit = canvas.width // 32
    row = (max(request.slot.step, 1) - 1) % CARDS
    card = Image.new(
        "RGB",
        (canvas.width - 2 * unit, canvas.height // CARDS - unit),
        _colour(f"{request.prompt}/{request.seed}", 38),
    )
    _write(card, request, unit, scale=max(1, canvas.width // 256))
    stamp = _stamp(request).resize((max(1, unit // 2), card.height - 2 * unit), Image.Resampling.NEAREST)
    card.paste(stamp, (card.width - unit, unit))
    edge = (0, 0, card.width - 1, card.height - 1)
    ImageDraw.Draw(card).rounded_rectangle(edge, unit, outline="white", width=max(1, unit // 6))
    shape = Image.new("L", card.size)
    ImageDraw.Draw(shape).rounded_rectangle(edge, unit, fill=255)
    canvas.paste(card, (unit, row * canvas.height // CARDS + unit // 2), shape)


def _write(card: Image.Image, request: ImageRequest, unit: int, *, scale: int) -> None:
    number = _lettering(str(request.slot.step or "-"), scale * 3)
    card.paste("white", (unit, (card.height - number.height) // 2), number)
    words = request.prompt[: 4 * LINES * LINE_CHARACTERS]
    lines = [_lettering(line, scale) for line in wrap(words, LINE_CHARACTERS)[:LINES]]
    upper = (card.height - len(lines) * LINE_HEIGHT * scale) // 2
    for position, line in enumerate(lines):
        card.paste("white", (5 * unit, upper + position * LINE_HEIGHT * scale), line)


def _stamp(request: ImageRequest) -> Image.Image:
    """A column of grey cells that differs between any two requests, even if their cards look alike."""
    facts = [request.prompt, str(request.seed), *map(pixel_digest, request.sources)]
    digest = hashlib.sha256("\0".join(facts).encode("utf-8", "surrogatepass")).digest()
    return Image.frombytes("L", (1, STAMP_CELLS), digest[:STAMP_CELLS])


@cache
def _font() -> ImageFont.ImageFont:
    return ImageFont.load_default_imagefont()


@lru_cache(maxsize=256)  # the attempts of a step share most of their lines
def _lettering(text: str, scale: int) -> Image.Image:
    # Pillow's built-in bitmap font has the same pixels in every version; what it cannot write becomes '?'.
    font = _font()
    plain = text.encode("latin-1", "replace").decode("latin-1")
    width, height = (max(int(side), 1) for side in font.getbbox(plain)[2:])
    mask = Image.new("L", (width, height))
    ImageDraw.Draw(mask).text((0, 0), plain, fill=255, font=font)
    return mask.resize((width * scale, height * scale), Image.Resampling.NEAREST)


def _colour(seed: str, lightness: int) -> tuple[int, int, int]:
    """A pleasant colour that depends on the text alone; `lightness` in per cent."""
    hue = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:2], "big") % 360
    red, green, blue = ImageColor.getrgb(f"hsl({hue}, 45%, {lightness}%)")[:3]
    return red, green, blue
