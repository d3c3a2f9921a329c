"""Fakes for dry runs and tests without a model.

`solid` draws a card for every step on the previous image, without a model or fonts. The same request gives
the same pixels on every machine. Another prompt, seed or source gives other pixels, and the cards show the
number and prompt of each step.

`scripted` is a planner and critic. `scripted:PATH` answers the n-th call of its role in a run with line n of
a JSONL file (`{"text": …, "finish_reason": …}`). `scripted` alone follows a rule. As planner, it makes as
many steps as the request names, else four, in chapters if asked for them. As critic, it rejects every first
attempt of an even step.

`solid-document` is a native system: it writes a document with as many images as the request names, else four.
`none` is a generator for native systems whose documents are not to be changed.
"""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from textwrap import wrap
from typing import Annotated

from PIL import Image, ImageColor, ImageDraw, ImageFont
from pydantic import Field, ValidationError

from interleave.backends.protocols import (
    DocumentEnd,
    DocumentEvent,
    GeneratorCapabilities,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    Token,
    VlmCapabilities,
)
from interleave.config.specs import BackendOptions, Spec
from interleave.errors import BackendError, ConfigurationError, Failure, first_problem
from interleave.files import read_bytes, why
from interleave.images import pixel_digest
from interleave.step_counts import asking_text, first_number, named_step_count, read_chapter_place
from interleave.text import one_line
from interleave.types import ImagePart, Part, Request, Slot, Text, Value

MAX_SOURCES = 16
CARDS = 6
"""Cards per image. The seventh step starts again at the top."""
LINES, LINE_CHARACTERS, LINE_HEIGHT = 3, 30, 10
STAMP_CELLS = 16


class SolidGenerator:
    """A generator that paints a gradient as the first image, and a card with number and prompt per step."""

    class Options(BackendOptions):
        delay: float = Field(default=0.0, ge=0, le=3600)
        """Seconds to wait before each image, to simulate a slow model."""
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


class SolidDocument:
    """A native system that writes a sentence and paints a card for every step."""

    class Options(SolidGenerator.Options):
        """The options of its images."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if role != "planner":
            raise ConfigurationError(f"{str(spec)!r} writes documents: use it as the planner")
        self._images = SolidGenerator(spec=Spec("solid"), options=options)
        self.capabilities = VlmCapabilities(knows_its_price=True, concurrency=options.concurrency)

    async def write(self, request: Request) -> AsyncIterator[DocumentEvent]:
        sources = request.images[-1:]
        asked = one_line(request.text, 60)
        for number in range(1, (named_step_count(request.text) or 4) + 1):
            yield Text(f"Step {number} of: {asked}\n")
            drawing = ImageRequest(asked, number, sources, Slot(number))
            sources = (await self._images.generate(drawing),)
            yield ImagePart(sources[0])
        yield DocumentEnd(cost=0.0)


class NoGenerator:
    """`none`: leaves a native system's document unchanged."""

    class Options(BackendOptions):
        """No further options."""

    capabilities = GeneratorCapabilities(max_sources=MAX_SOURCES, price_per_image=0.0)

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(f"{str(spec)!r}: 'none' takes no model and no address")

    async def generate(self, request: ImageRequest) -> Image.Image:
        raise BackendError(
            f"step {request.slot.step} needs another image, and the generator is 'none': name a generator",
            kind=Failure.INVALID,
        )


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
    """Return a column of grey cells that differs between any two requests, even if their cards look alike."""
    facts = [request.prompt, str(request.seed), *map(pixel_digest, request.sources)]
    digest = hashlib.sha256("\0".join(facts).encode("utf-8", "surrogatepass")).digest()
    return Image.frombytes("L", (1, STAMP_CELLS), digest[:STAMP_CELLS])


@cache
def _font() -> ImageFont.ImageFont:
    return ImageFont.load_default_imagefont()


@lru_cache(maxsize=256)  # the attempts of a step share most of their lines
def _lettering(text: str, scale: int) -> Image.Image:
    # Pillow's built-in bitmap font has the same pixels in every version. Unsupported characters become '?'.
    font = _font()
    plain = text.encode("latin-1", "replace").decode("latin-1")
    width, height = (max(int(side), 1) for side in font.getbbox(plain)[2:])
    mask = Image.new("L", (width, height))
    ImageDraw.Draw(mask).text((0, 0), plain, fill=255, font=font)
    return mask.resize((width * scale, height * scale), Image.Resampling.NEAREST)


def _colour(seed: str, lightness: int) -> tuple[int, int, int]:
    """Return a colour that depends only on the text. `lightness` is in per cent."""
    hue = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:2], "big") % 360
    red, green, blue = ImageColor.getrgb(f"hsl({hue}, 45%, {lightness}%)")[:3]
    return red, green, blue


DEFAULT_STEPS = 4
MAX_COUNTED_STEPS = 50
"""Largest number in a request that counts as a number of steps. A year does not."""
SCORES = (8, 9)
MAX_SCRIPT_BYTES = 100_000_000

Probability = Annotated[float, Field(ge=0, le=1)]


class Line(Value):
    """One line of a script."""

    text: str
    finish_reason: str = "stop"
    tokens: tuple[tuple[str, Probability], ...] = ()
    """Tokens of the text with their probabilities, to imitate a backend that returns them."""


class ScriptedVlm:
    """A planner, critic or scorer that replies from a script."""

    class Options(BackendOptions):
        """No further options."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if spec.base_url:
            raise ConfigurationError(f"{str(spec)!r}: 'scripted' takes a file, not an address")
        self.role = role
        self.path = Path(spec.model) if spec.model else None
        self.lines = _read_script(self.path) if self.path else ()
        self.capabilities = VlmCapabilities(
            token_probabilities=any(line.tokens for line in self.lines),
            knows_its_price=True,
            repeatable=True,
            continues_replies=True,
            concurrency=options.concurrency,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        if self.path is None:
            return Reply(self._reply_by_rule(messages, sampling), cost=0.0)
        call = sampling.slot.call
        if call > len(self.lines):
            raise BackendError(
                f"the script {self.path} has {len(self.lines)} lines, "
                f"and call {call} of the {self.role} is past its end"
            )
        line = self.lines[call - 1]
        tokens = tuple(Token(text, probability) for text, probability in line.tokens)
        return Reply(line.text, line.finish_reason, cost=0.0, tokens=tokens)

    def _reply_by_rule(self, messages: Sequence[Message], sampling: Sampling) -> str:
        if self.role == "planner":
            return _plan(next((message.merged for message in messages if message.role == "user"), ()))
        if self.role == "critic":
            return _verdict(sampling.slot.step, sampling.slot.attempt)
        return json.dumps({"score": list(SCORES), "reasoning": "A fixed mark."})


def _plan(parts: Sequence[Part]) -> str:
    """Return a plan, or a chapter if one is requested."""
    texts = [part.text if isinstance(part, Text) else None for part in parts]
    place = next((found for text in texts if text and (found := read_chapter_place(text))), None)
    if place is not None:
        texts = _before_place(texts)
    request = "\n".join(text for text in texts if text is not None)  # images separate words
    asking = asking_text(texts)
    count = named_step_count(asking) or _counted(asking) or DEFAULT_STEPS
    subject = one_line(request, 60) or "the images given"
    steps = [
        {
            "step_number": number,
            "step_name": f"Part {number} of {count}",
            "instruction": f"Part {number} of {count}: {subject}",
            "prompt": subject if number == 1 else f"Add part {number} of {count} to the picture: {subject}",
            "auxiliary_text": None,
        }
        for number in range(1, count + 1)
    ]
    if place is None:
        return _answer(f"The request becomes {count} parts.", {"execution_plan": steps})
    _, first, most = place
    last = min(first + most - 1, count)
    return _answer(
        f"The request becomes {count} parts.",
        {
            "summary": f"Parts 1 to {last} of {count} are there.",
            "finished": last == count,
            "execution_plan": steps[first - 1 : last],
        },
    )


def _before_place(texts: Sequence[str | None]) -> list[str | None]:
    """Return the texts of a request without the chapter instructions that follow it."""
    found: list[str | None] = []
    for text in texts:
        if text and (place := text.find("Plan chapter ")) >= 0 and read_chapter_place(text[place:]):
            return [*found, text[:place].strip()]
        found.append(text)
    return found


def _counted(request: str) -> int | None:
    number = first_number(request)
    return number if number is not None and number <= MAX_COUNTED_STEPS else None


def _verdict(step: int, attempt: int) -> str:
    if step % 2 == 0 and attempt == 1:
        refined = f"Add part {step} once more, larger and clearly readable; keep everything else as it is"
        return _answer(
            "The script refuses every first attempt of an even step.",
            {"previous_step_success": False, "refine_prompt": refined},
        )
    return _answer("The script accepts this attempt.", {"previous_step_success": True, "refine_prompt": ""})


def _answer(thinking: str, value: object) -> str:
    # A request may contain tags. Escaped, they cannot end the answer early.
    body = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return f"<think>{thinking}</think><answer>{body}</answer>"


def _read_script(path: Path) -> tuple[Line, ...]:
    try:
        data = read_bytes(path, most_bytes=MAX_SCRIPT_BYTES)
    except FileNotFoundError:
        raise ConfigurationError(
            f"the script {str(path)!r} does not exist: check the path after 'scripted:'"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"the script {str(path)!r} cannot be read ({why(error)})") from None
    rows = data.removeprefix(codecs.BOM_UTF8).rstrip().split(b"\n")
    return tuple(_read_line(row, f"{path}:{number}") for number, row in enumerate(rows, 1))


def _read_line(row: bytes, where: str) -> Line:
    try:
        return Line.model_validate_json(row)
    except ValidationError as error:
        raise ConfigurationError(
            f'{where}: not a script line like {{"text": "…"}} ({first_problem(error)})'
        ) from None
