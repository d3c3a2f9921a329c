"""Makes the images of docs/explanation/miniature.md and its table of the language from the code.

Run with: python docs/miniature/make.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from PIL import Image, ImageDraw, ImageFont

from interleave_mini.bench.tasks import SUITES, Task
from interleave_mini.world.drawing import draw
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS, NOUNS
from interleave_mini.world.scene import Scene, Size, Thing
from interleave_mini.world.sprites import sprite
from miniature.grammar.natural import sample_request
from miniature.grammar.tasks import parse_task, tasks
from miniature.grammar.topics import DOMAINS, Topic
from miniature.grammar.voices import voices

FOLDER = Path(__file__).parent
PAPER, GIVEN, LINE = (250, 248, 243), (232, 226, 211), (222, 217, 206)
INK, FAINT = (48, 46, 42), (120, 116, 108)
_STEP = re.compile(r"Step \d+: ")
MOST_BYTES, MOST_BYTES_ALL = 250_000, 1_200_000

SEED = 3
"""Seed of the shown tasks: the first ones of these topics in the test split."""
STORIES = {
    "visual stories": "making friends",
    "growing and life cycles": "a butterfly grows up",
    "cooking": "eating a cake",
    "building and tidying": "unwrapping a gift",
    "robot manipulation": "swapping blocks",
    "science and seasons": "a melting snowman",
}
SUITES_BY = {
    "story": "a rocket launch",
    "continue": "drawing a house",
    "know": "riddles",
    "edit": "spatial",
    "plain": "one picture",
    "annotate": "hide and seek",
}


def every_noun() -> Image.Image:
    """Draw every noun in its usual colour, with its name."""
    columns, width, height, side = 12, 104, 118, 96
    sheet = _page(columns * width + 24, -(-len(NOUNS) // columns) * height + 24)
    for index, (noun, (kind, _)) in enumerate(NOUNS.items()):
        row, column = divmod(index, columns)
        left, top = 12 + column * width, 12 + row * height
        image = _cut_out(noun, KINDS[kind].colour).resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(image, (left + (width - side) // 2, top), image)
        _centred(sheet, noun, left + width // 2, top + side + 2, _font(12))
    return sheet


def every_colour() -> Image.Image:
    """Draw every noun in all colours, in three wide columns."""
    nouns, side, columns, name = list(NOUNS), 34, 3, 118
    rows = -(-len(nouns) // columns)
    width = name + len(COLOURS) * side + 24
    sheet = _page(columns * width, rows * side + 24)
    for index, noun in enumerate(nouns):
        column, row = divmod(index, rows)
        left, top = column * width + 12, 12 + row * side
        ImageDraw.Draw(sheet).text((left + name - 8, top + side / 2), noun, INK, _font(12), anchor="rm")
        for place, colour in enumerate(COLOURS):
            image = _cut_out(noun, colour).resize((side, side), Image.Resampling.LANCZOS)
            sheet.paste(image, (left + name + place * side, top), image)
    return sheet


def every_background() -> Image.Image:
    """Draw the twelve backgrounds with their names."""
    columns, side, gap = 6, 190, 12
    rows = -(-len(BACKGROUNDS) // columns)
    sheet = _page(columns * (side + gap) + gap, rows * (side + 32) + gap)
    for index, name in enumerate(BACKGROUNDS):
        row, column = divmod(index, columns)
        left, top = gap + column * (side + gap), gap + row * (side + 32)
        sheet.paste(_framed(Scene(name), side), (left, top))
        _centred(sheet, name, left + side // 2, top + side + 4, _font(14))
    return sheet


def stories() -> Image.Image:
    """Draw six requests of the test split with their true images and captions."""
    return _stacked([_strip(_first("story", topic), domain) for domain, topic in STORIES.items()])


def suites() -> Image.Image:
    """Draw one task of each suite: its input and a right answer."""
    half = {"know", "edit"}
    strips = {
        suite: _strip(_first(suite, SUITES_BY[suite]), suite, COLUMNS // (2 if suite in half else 1))
        for suite in SUITES
    }
    row = _side_by_side(strips["know"], strips["edit"])
    return _stacked([strips["story"], strips["continue"], row, strips["plain"], strips["annotate"]])


def _first(suite: str, topic: str) -> Task:
    return next(task for task in tasks(suite, "test", seed=SEED) if task.topic == topic)


COLUMNS, SIDE, GAP = 4, 236, 16


@dataclass(frozen=True)
class Frame:
    """An image of a strip, with its caption."""

    scene: Scene
    caption: str
    given: bool
    caption_given: bool = False


def _frames(task: Task) -> list[Frame]:
    shown = [part for part in task.parts if isinstance(part, Scene)]
    answers = [Frame(step.scene, step.caption, task.text_only) for step in task.steps]
    if task.text_only:
        return answers
    said = [part.split(": ", 1)[1] for part in task.parts if isinstance(part, str) and _STEP.match(part)]
    captions = said or [""] * len(shown)
    return [*(Frame(*each, True, True) for each in zip(shown, captions, strict=True)), *answers]


def _strip(task: Task, title: str, columns: int = COLUMNS) -> Image.Image:
    """Draw a request and below it a row of captioned images; inputs have a darker background."""
    frames = _frames(task)
    captions = [_lines(frame.caption, SIDE, _font(14)) for frame in frames]
    words = [part for part in task.parts if isinstance(part, str) and not _STEP.match(part)]
    request = _lines(f"“{' … '.join(words)}”", columns * (SIDE + GAP) - GAP, _font(17))
    top = 40 + 22 * len(request)
    height = top + SIDE + 8 + 19 * max(map(len, captions))
    page = _page(_width(columns), height + GAP)
    pen = ImageDraw.Draw(page)
    pen.text((GAP, 12), title, FAINT, _font(13))
    pen.multiline_text((GAP, 30), "\n".join(request), INK, _font(17), spacing=5)
    for place, (frame, lines) in enumerate(zip(frames, captions, strict=True)):
        left = GAP + place * (SIDE + GAP)
        if frame.given:
            bottom = height + 5 if frame.caption_given and frame.caption else top + SIDE + 5
            pen.rounded_rectangle((left - 5, top - 5, left + SIDE + 5, bottom), 6, GIVEN)
        page.paste(_framed(frame.scene, SIDE), (left, top))
        pen.multiline_text((left, top + SIDE + 8), "\n".join(lines), INK, _font(14), spacing=4)
    return page


def _width(columns: int) -> int:
    return columns * (SIDE + GAP) + GAP


def _side_by_side(left: Image.Image, right: Image.Image) -> Image.Image:
    """Join two narrow strips in one row."""
    page = _page(_width(COLUMNS), max(left.height, right.height))
    page.paste(left, (0, 0))
    page.paste(right, (page.width - right.width, 0))
    return page


def _stacked(strips: Sequence[Image.Image]) -> Image.Image:
    page = _page(_width(COLUMNS), sum(strip.height for strip in strips))
    top = 0
    for strip in strips:
        page.paste(strip, (0, top))
        if top:
            ImageDraw.Draw(page).line((GAP, top, page.width - GAP, top), LINE)
        top += strip.height
    return page


def frog() -> Image.Image:
    """Draw the strip of the README: the result of its command."""
    task = parse_task(["How a frog grows up, step by step, in four pictures"])
    side, gap = 200, 8
    page = _page(len(task.steps) * (side + gap) - gap, side, "white")
    for place, step in enumerate(task.steps):
        page.paste(_framed(step.scene, side), (place * (side + gap), 0))
    return page


def _page(width: int, height: int, ground: tuple[int, int, int] | str = PAPER) -> Image.Image:
    return Image.new("RGB", (width, height), ground)


def _cut_out(noun: str, colour: str) -> Image.Image:
    kind, state = NOUNS[noun]
    return Image.fromarray(sprite(Thing(kind, colour, Size.LARGE, state)), "RGBa").convert("RGBA")


def _framed(scene: Scene, side: int) -> Image.Image:
    return draw(scene).resize((side, side), Image.Resampling.LANCZOS)


def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)  # type: ignore[return-value]  # Pillow's own, a FreeType font


def _centred(page: Image.Image, text: str, middle: int, top: int, font: ImageFont.FreeTypeFont) -> None:
    ImageDraw.Draw(page).text((middle, top), text, INK, font, anchor="ma")


def _lines(text: str, width: int, font: ImageFont.FreeTypeFont) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], longer] if font.getlength(longer) <= width else [*lines, word]
    return lines


IMAGES = {
    "things.webp": every_noun,
    "colours.webp": every_colour,
    "backgrounds.webp": every_background,
    "stories.webp": stories,
    "suites.webp": suites,
    "frog.webp": frog,
}


_TABLE = re.compile(r"(?<=<!-- made by miniature/make.py -->\n).*?(?=<!-- end -->)", re.DOTALL)


def language_table() -> str:
    """Return the table of domains with their sizes and an example request each."""
    rng = Random(SEED)
    rows = [
        "| domain | sub-categories | templates | lines in voices | for example |",
        "|---|---:|---:|---:|---|",
    ]
    for domain, topics in DOMAINS.items():
        rows.append(f"| {domain} | {' | '.join(map(str, _sizes(topics)))} | {_example(topics, rng)} |")
    everything = _sizes([topic for topics in DOMAINS.values() for topic in topics])
    rows.append(f"| **all** | {' | '.join(f'**{size:,}**' for size in everything)} | |")
    return "\n".join(rows) + "\n"


def _sizes(topics: Sequence[Topic]) -> tuple[int, int, int]:
    templates = sum(len(topic.templates) for topic in topics)
    lines = sum(len(voice.section(topic.name)) for topic in topics for voice in voices())
    return len(topics), templates, lines


def _example(topics: Sequence[Topic], rng: Random) -> str:
    topic, voice = rng.choice(topics), rng.choice(voices())
    found = sample_request(topic, voice, rng) or topic.sample(rng)
    return found.text


def write_table(page: Path) -> None:
    text = page.read_text("utf-8")
    page.write_text(_TABLE.sub(lambda _: language_table(), text), "utf-8")


QUALITY = {"colours.webp": 62}
"""WEBP quality by file: small images consist of edges, which take the most bytes."""


def main() -> int:
    total = 0
    for name, make in IMAGES.items():
        path = FOLDER / name
        make().save(path, "WEBP", quality=QUALITY.get(name, 86), method=6)
        total += (size := path.stat().st_size)
        print(f"{name:<18} {size / 1000:6.0f} kB{'' if size <= MOST_BYTES else '  TOO LARGE'}")
    print(f"{'all':<18} {total / 1000:6.0f} kB{'' if total <= MOST_BYTES_ALL else '  TOO LARGE'}")
    write_table(FOLDER.parent / "explanation" / "miniature.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
