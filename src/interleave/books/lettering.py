"""Places of lettering, in thousandths of the width of the space that it is drawn in.

Sizes are estimated generously from the characters, so that PDF, PowerPoint and fixed EPUB share the places
whatever their fonts. Boxes never overlap each other. What finds no room becomes a line of the legend.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from interleave.books.book import BookPage, Letters

WIDTH = 1000.0
SIZE, LABEL_SIZE = 38.0, 26.0
"""Font sizes."""
LINE = 1.3
PAD = 18.0
GAP = 14.0
COLUMN = 195.0
"""Width of the columns of labels beside an image."""
BESIDE = 0.12
"""Heights of an image within which two things stand beside each other."""
CLEARANCES = (150.0, 80.0, 8.0)
"""Distances of a bubble from what it must not hide, the best first."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Part:
    """Words of a box in one language, by its place in the book."""

    language: int
    text: str
    who: str = ""


_Label = tuple[float, Point, tuple[Part, ...]]
"""The height that a label should be at, its point and its words."""


@dataclass(frozen=True)
class Box:
    """A box of words."""

    kind: str
    x: float
    y: float
    w: float
    h: float
    size: float
    parts: tuple[Part, ...]
    tail: tuple[Point, ...] = ()
    """A bubble's tail: its base, tip and base again."""
    side: str = ""
    """Column of a label: left or right."""
    pad: float = PAD

    def overlaps(self, other: Box) -> bool:
        return (
            self.x < other.x + other.w
            and other.x < self.x + self.w
            and self.y < other.y + other.h
            and other.y < self.y + self.h
        )


@dataclass(frozen=True)
class Dot:
    """A number at a point of the image."""

    number: int
    x: float
    y: float


@dataclass(frozen=True)
class Entry:
    """A line of the legend; without a number if its point is unknown."""

    number: int | None
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Drawn:
    """All lettering of a page. The image is at `left`, with this width and height."""

    height: float
    boxes: tuple[Box, ...] = ()
    leaders: tuple[tuple[Point, Point], ...] = ()
    dots: tuple[Dot, ...] = ()
    legend: tuple[Entry, ...] = ()
    left: float = 0.0
    width: float = WIDTH


@dataclass
class _Space:
    """An image of WIDTH by `height`, and the boxes placed so far."""

    height: float
    boxes: list[Box] = field(default_factory=list)
    kept: list[Point] = field(default_factory=list)
    """Points that no box may hide: those that speech and labels are about."""


def letters_of(page: BookPage) -> list[tuple[Letters, tuple[Part, ...]]]:
    """Return the lettering of a page with its words in each language."""
    in_languages = zip(*(each.lettering for each in page.words), strict=True)
    return [
        (same[0], tuple(Part(place, each.text, each.target) for place, each in enumerate(same)))
        for same in in_languages
    ]


def drawn_over(page: BookPage) -> Drawn:
    """Return the lettering upon an image: bubbles and narration, and numbers for labels."""
    if page.image is None:
        return Drawn(0.0, legend=tuple(Entry(None, parts) for _, parts in letters_of(page)))
    height = WIDTH * page.image.height / page.image.width
    space, dots, legend = _Space(height), list[Dot](), list[Entry]()
    found = letters_of(page)
    space.kept = [_point(each, height) for each, _ in found if each.at is not None]
    for letters, parts in found:
        if letters.kind == "label":
            number = None
            if letters.at is not None:
                number = len(dots) + 1
                dots.append(Dot(number, *_point(letters, height)))
            legend.append(Entry(number, tuple(Part(each.language, each.text) for each in parts)))
        elif (placed := _placed(letters, parts, space)) is not None:
            space.boxes.append(placed)
        else:
            legend.append(Entry(None, parts))
    return Drawn(height, tuple(space.boxes), dots=tuple(dots), legend=tuple(legend))


def diagram(page: BookPage) -> Drawn:
    """Return the labels of an image beside it, with lines to their points; other lettering in the legend."""
    if page.image is None:
        return Drawn(0.0, legend=tuple(Entry(None, parts) for _, parts in letters_of(page)))
    left, width = COLUMN, WIDTH - 2 * COLUMN
    height = width * page.image.height / page.image.width
    sides: dict[str, list[_Label]] = {"left": [], "right": []}
    points = [each.at for each, _ in letters_of(page) if each.at is not None]
    legend = []
    for letters, parts in letters_of(page):
        if letters.kind != "label" or letters.at is None:
            legend.append(Entry(None, parts if letters.kind == "speech" else _nameless(parts)))
            continue
        x, y = letters.at
        side, wanted = _side(letters.at, points)
        sides[side].append((wanted * height, (left + x * width, y * height), _nameless(parts)))
    boxes, leaders, needed = [], [], height
    for side, entries in sides.items():
        column = _column(side, sorted(entries, key=lambda label: label[0]), height)
        boxes += [box for box, _ in column]
        leaders += [(_edge(box), tip) for box, tip in column]
        needed = max([needed, *(box.y + box.h for box, _ in column)])
    return Drawn(needed, tuple(boxes), tuple(leaders), (), tuple(legend), left, width)


def _nameless(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(Part(each.language, each.text) for each in parts)


def _side(point: Point, others: Sequence[Point]) -> tuple[str, float]:
    """Return the column of a label and the height to be at, so that its line crosses few other things."""
    x, y = point
    beside = [each for each in others if each != point and abs(each[1] - y) < BESIDE]
    crossed = {"left": sum(each[0] < x for each in beside), "right": sum(each[0] > x for each in beside)}
    side = min(crossed, key=lambda name: (crossed[name], x if name == "left" else 1 - x))
    if not crossed[side]:
        return side, y
    return side, y - 2 * BESIDE if y > 2 * BESIDE else y + 2 * BESIDE


def _column(side: str, entries: Sequence[_Label], height: float) -> list[tuple[Box, Point]]:
    """Return the boxes of a column, each near the height of its point, none over another."""
    x = 0.0 if side == "left" else WIDTH - COLUMN
    width, size = COLUMN - PAD, LABEL_SIZE
    x += 0.0 if side == "left" else PAD
    heights = [text_height(parts, width, size, 0.0) for *_, parts in entries]
    tops: list[float] = []
    end = 0.0
    for (wanted, *_), high in zip(entries, heights, strict=True):
        end = max(end, wanted - high / 2)
        tops.append(end)
        end += high + GAP
    limit = max(height, sum(heights) + GAP * len(heights))
    for place in range(len(tops) - 1, -1, -1):  # push those back that run past the image
        tops[place] = min(tops[place], limit - heights[place])
        limit = tops[place] - GAP
    low = min([0.0, *tops])
    return [
        (Box("label", x, top - low, width, high, size, parts, (), side, 0.0), point)
        for (_, point, parts), top, high in zip(entries, tops, heights, strict=True)
    ]


def _edge(box: Box) -> Point:
    """Return where the line of a label begins."""
    return (box.x + box.w + 4 if box.side == "left" else box.x - 4, box.y + box.h / 2)


def _point(letters: Letters, height: float) -> Point:
    x, y = letters.at or (0.5, 0.5)
    return x * WIDTH, y * height


def _placed(letters: Letters, parts: tuple[Part, ...], space: _Space) -> Box | None:
    """Return the first place for a bubble or narration that is free, `None` if there is none."""
    tip = _point(letters, space.height) if letters.at is not None and letters.kind == "speech" else None
    best: tuple[float, Box] | None = None
    for clearance, width in product(CLEARANCES, _widths(letters.kind, parts)):
        high = text_height(parts, width - 2 * PAD, SIZE, PAD)
        for y in _steps(space.height - high):
            for x in _steps(WIDTH - width):
                box = Box(letters.kind, x, y, width, high, SIZE, parts)
                if _is_free(box, space, clearance) and (best is None or _cost(box, tip) < best[0]):
                    best = (_cost(box, tip), box)
        if best is not None:
            break
    if best is None:
        return None
    box = best[1]
    return Box(**{**vars(box), "tail": _tail(box, tip)}) if tip else box


def _widths(kind: str, parts: tuple[Part, ...]) -> list[float]:
    longest = max(em_width(part.text) for part in parts) * SIZE + 2 * PAD + SIZE
    if kind == "caption":
        return [WIDTH - 2 * GAP]
    return [min(longest, width) for width in (420.0, 560.0, 720.0, 940.0)]


def _steps(room: float) -> list[float]:
    """Return places from GAP on that leave a margin at the end."""
    last = room - GAP
    return [] if last < GAP else [GAP + (last - GAP) * step / 12 for step in range(13)]


def _is_free(box: Box, space: _Space, clearance: float) -> bool:
    wider = Box("", box.x - GAP / 2, box.y - GAP / 2, box.w + GAP, box.h + GAP, 0, ())
    hides = any(
        box.x - clearance < x < box.x + box.w + clearance
        and box.y - clearance < y < box.y + box.h + clearance
        for x, y in space.kept
    )
    return not hides and not any(wider.overlaps(each) for each in space.boxes)


def _cost(box: Box, tip: Point | None) -> float:
    """Return how far a box is from the top, and a bubble from its speaker."""
    if tip is None:
        return box.y
    beside = abs(box.x + box.w / 2 - tip[0])
    above = tip[1] - (box.y + box.h)
    return beside * 0.6 + (abs(above - 60) if above > 0 else 400 - above)


def _tail(box: Box, tip: Point) -> tuple[Point, ...]:
    """Return the tail from the edge of a bubble that faces its speaker."""
    half = 20.0
    if box.y <= tip[1] <= box.y + box.h:
        x = box.x + box.w if tip[0] > box.x else box.x
        y = min(max(tip[1], box.y + 30), box.y + box.h - 30)
        return ((x, y - half), _near(tip, (x, y)), (x, y + half))
    x = min(max(tip[0], box.x + 50), box.x + box.w - 50)
    y = box.y + box.h if tip[1] > box.y else box.y
    return ((x - half, y), _near(tip, (x, y)), (x + half, y))


def _near(tip: Point, start: Point) -> Point:
    """Return a point before the speaker, so that the tail hides little of it."""
    far = math.dist(tip, start)
    part = min(0.6, CLEARANCES[1] / far) if far else 0.0
    return tip[0] + (start[0] - tip[0]) * part, tip[1] + (start[1] - tip[1]) * part


def text_height(parts: Sequence[Part], width: float, size: float, pad: float) -> float:
    """Return the height of words in a box of this inner width."""
    lines = sum(lines_of(part.text, width / size) for part in parts)
    return lines * size * LINE + (len(parts) - 1) * size * 0.4 + 2 * pad


def lines_of(text: str, width: float) -> int:
    """Return how many lines a text may take, in a width in ems."""
    lines = 0
    for paragraph in text.split("\n"):
        used, lines = 0.0, lines + 1
        for word in paragraph.split(" "):
            wide = em_width(word)
            if used and used + wide > width:
                lines, used = lines + 1, 0.0
            while wide > width:  # scripts without spaces, and very long words
                lines, wide = lines + 1, wide - width
            used += wide + 0.3
    return lines


def em_width(text: str) -> float:
    """Return a generous width of a text in ems."""
    return sum(map(_em, text))


def _em(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if unicodedata.category(character) in ("Mn", "Cf"):
        return 0.0
    return 0.72 if character.isupper() or character in "mw@%—" else 0.3 if character in " il.,;:'!|" else 0.56
