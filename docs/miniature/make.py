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
from tempfile import TemporaryDirectory

from PIL import Image, ImageDraw, ImageFont

import interleave
from interleave_mini.bench.tasks import SUITES, Task
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.world.drawing import draw
from interleave_mini.world.scene import Scene, Size, Thing
from interleave_mini.world.sprites import sprite
from interleave_mini.world.wider import (
    ADJECTIVES,
    ALL_BACKGROUNDS,
    ALL_COLOURS,
    ALL_KINDS,
    ALL_NOUNS,
    NIGHT_OF,
)
from miniature.grammar.natural import sample_request
from miniature.grammar.tasks import tasks
from miniature.grammar.topics import DOMAINS, Topic
from miniature.grammar.voices import voices

FOLDER = Path(__file__).parent
PAPER, GIVEN, LINE = (250, 248, 243), (232, 226, 211), (222, 217, 206)
INK, FAINT = (48, 46, 42), (120, 116, 108)
_STEP = re.compile(r"Step \d+: ")
MOST_BYTES, MOST_BYTES_ALL = 330_000, 1_200_000

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


TOUCHING = (
    "A bedroom with an orange sleeping cat on a brown chair in the middle.",
    "A kitchen table with a red apple in a white bowl in the middle.",
    "A room with a brown dog under a brown table in the middle.",
    "A park with a yellow balloon held by a red happy girl in the middle.",
    "A farm at night with a blue boy on a brown horse in the middle.",
    "A bedroom with a yellow sleeping baby in a blue bed in the middle.",
    "A street with a grey mouse under a red umbrella in the middle.",
    "A forest with a yellow banana held by a brown monkey in the middle.",
    "A snowy field with a black hat on a blue snowman in the middle.",
    "A road with a red broken car in a blue truck in the middle.",
    "A river with a white ghost under a grey bridge in the middle.",
    "A garden at night with an orange pumpkin held by a purple woman in the middle.",
)
"""One column each of things on, in, under and held by others."""


def every_noun() -> Image.Image:
    """Draw every noun in its usual colour, with its name, the states of a kind after each other."""
    columns, width, height, side = 16, 80, 94, 62
    sheet = _page(columns * width + 24, -(-len(ALL_NOUNS) // columns) * height + 24)
    for index, (noun, (kind, state)) in enumerate(ALL_NOUNS.items()):
        row, column = divmod(index, columns)
        left, top = 12 + column * width, 12 + row * height
        image = _cut_out(noun, ALL_KINDS[kind].colour).resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(image, (left + (width - side) // 2, top), image)
        adjective = ADJECTIVES[kind][state]
        for line, words in enumerate(filter(None, (adjective, noun.removeprefix(adjective).strip()))):
            _centred(sheet, words, left + width // 2, top + side + 1 + 12 * line, _font(11))
    return sheet


def every_colour() -> Image.Image:
    """Draw every kind in all colours, in four wide columns."""
    kinds, side, columns, name = list(ALL_KINDS.values()), 28, 4, 84
    rows = -(-len(kinds) // columns)
    width = name + len(ALL_COLOURS) * side + 16
    sheet = _page(columns * width, rows * side + 24)
    for index, kind in enumerate(kinds):
        column, row = divmod(index, rows)
        noun = kind.states[kind.usual]
        left, top = column * width + 8, 12 + row * side
        ImageDraw.Draw(sheet).text((left + name - 8, top + side / 2), noun, INK, _font(12), anchor="rm")
        for place, colour in enumerate(ALL_COLOURS):
            image = _cut_out(noun, colour).resize((side, side), Image.Resampling.LANCZOS)
            sheet.paste(image, (left + name + place * side, top), image)
    return sheet


def every_background() -> Image.Image:
    """Draw all places with their names, each above its night."""
    columns, side, gap = 8, 148, 10
    places = [place for place in ALL_BACKGROUNDS if place not in NIGHT_OF.values()]
    rows, height = -(-len(places) // columns), 2 * (side + 4) + 26
    sheet = _page(columns * (side + gap) + gap, rows * height + gap)
    for index, name in enumerate(places):
        row, column = divmod(index, columns)
        left, top = gap + column * (side + gap), gap + row * height
        sheet.paste(_framed(Scene(name), side), (left, top))
        if name in NIGHT_OF:
            sheet.paste(_framed(Scene(NIGHT_OF[name]), side), (left, top + side + 4))
        _centred(sheet, name, left + side // 2, top + 2 * side + 7, _font(13))
    return sheet


def touching() -> Image.Image:
    """Draw things on, in, under and held by others, each with the description that says so."""
    columns, side, gap, font = 4, 190, 14, _font(12)
    lines = [_lines(prompt, side, font) for prompt in TOUCHING]
    height = side + 12 + 15 * max(map(len, lines))
    sheet = _page(columns * (side + gap) + gap, len(TOUCHING) // columns * height + gap)
    for index, (prompt, words) in enumerate(zip(TOUCHING, lines, strict=True)):
        row, column = divmod(index, columns)
        left, top = gap + column * (side + gap), gap + row * height
        sheet.paste(_framed(parse_prompt(prompt, None), side), (left, top))
        ImageDraw.Draw(sheet).multiline_text((left, top + side + 4), "\n".join(words), INK, font, spacing=2)
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


FROG = "How a frog grows up, step by step, in four pictures"
MONKEY = "a monkey eats a banana"


def frog() -> Image.Image:
    """Draw the first strip of the README: the result of its command."""
    return _drawn(FROG)


def monkey() -> Image.Image:
    """Draw the second strip of the README."""
    return _drawn(MONKEY)


def _drawn(request: str) -> Image.Image:
    """Draw the images that the shipped models make of a request, side by side."""
    side, gap = 200, 8
    with TemporaryDirectory() as folder:
        run = interleave.generate(request, out=Path(folder) / "run")
        images = [Image.open(step.image).convert("RGB") for step in run.steps if step.image]
    page = _page(len(images) * (side + gap) - gap, side, "white")
    for place, image in enumerate(images):
        page.paste(image.resize((side, side), Image.Resampling.LANCZOS), (place * (side + gap), 0))
    return page


def _page(width: int, height: int, ground: tuple[int, int, int] | str = PAPER) -> Image.Image:
    return Image.new("RGB", (width, height), ground)


def _cut_out(noun: str, colour: str) -> Image.Image:
    kind, state = ALL_NOUNS[noun]
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
    "touching.webp": touching,
    "stories.webp": stories,
    "suites.webp": suites,
    "frog.webp": frog,
    "monkey.webp": monkey,
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


QUALITY = {"colours.webp": 50, "things.webp": 50, "backgrounds.webp": 76}
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
