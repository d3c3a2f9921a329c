"""Small charts as inline SVG: no script, no library, nothing to load.

Colours come from the page's style sheet, so that a chart works on dark and light backgrounds. Every mark has
a title, which browsers show and screen readers read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 520
HEIGHT = 220
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 12, 34
ROW = 22
LABEL = 210
TONES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Series:
    """One series of numbers with a name."""

    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    """The quartiles, drawn as a shaded band."""


def bars(labels: Sequence[str], series: Sequence[Series], *, across: str, title: str) -> str:
    """Vertical bars; the series of one label are stacked."""
    totals = [sum(one.values[place] for one in series) for place in range(len(labels))]
    top = nice_top(max(totals, default=0))
    step = (WIDTH - LEFT - RIGHT) / max(len(labels), 1)
    thick = min(step * 0.7, 48)
    marks = []
    for place, label in enumerate(labels):
        left, height = LEFT + step * (place + 0.5) - thick / 2, 0.0
        for tone, one in zip(TONES, series, strict=False):
            value = one.values[place]
            if value:
                y = _y(height + value, top)
                marks.append(
                    f'<rect class="tone-{tone}" x="{left:.1f}" y="{y:.1f}" width="{thick:.1f}" '
                    f'height="{_y(height, top) - y:.1f}"><title>{escape(label)}: {value:,.0f} '
                    f"{escape(one.name)}</title></rect>"
                )
            height += value
    return _framed(marks, labels, top, across, title, step)


def lines(labels: Sequence[str], series: Sequence[Series], *, top: float, across: str, title: str) -> str:
    """A line for each series, with a shaded band if it has quartiles."""
    step = (WIDTH - LEFT - RIGHT) / max(len(labels), 1)
    xs = [LEFT + step * (place + 0.5) for place in range(len(labels))]
    marks = []
    for tone, one in zip(TONES, series, strict=False):
        if one.low:
            edge = [f"{x:.1f},{_y(value, top):.1f}" for x, value in zip(xs, one.high, strict=True)]
            edge += [f"{x:.1f},{_y(v, top):.1f}" for x, v in reversed(list(zip(xs, one.low, strict=True)))]
            marks.append(f'<polygon class="band-{tone}" points="{" ".join(edge)}"/>')
        path = " ".join(f"{x:.1f},{_y(value, top):.1f}" for x, value in zip(xs, one.values, strict=True))
        marks.append(f'<polyline class="line-{tone}" points="{path}"/>')
        for x, label, value in zip(xs, labels, one.values, strict=True):
            marks.append(
                f'<circle class="tone-{tone}" cx="{x:.1f}" cy="{_y(value, top):.1f}" r="3.5">'
                f"<title>{escape(one.name)}, {escape(across)} {escape(label)}: {value:.2f}</title></circle>"
            )
    return _framed(marks, labels, top, across, title, step)


def ranking(values: Mapping[str, float], *, title: str, of: Mapping[str, float] | None = None) -> str:
    """Horizontal bars in the given order; `of` draws the possible maximum behind each.

    A label shows the last part of a name such as "art / lettering", and its title the whole.
    """
    top = max([*values.values(), *(of or {}).values()], default=0) or 1
    height = ROW * len(values) + 8
    room = WIDTH - LABEL - 64
    rows = []
    for place, (name, value) in enumerate(values.items()):
        y = 4 + ROW * place
        whole = (of or {}).get(name)
        if whole:
            rows.append(
                f'<rect class="track" x="{LABEL}" y="{y + 3}" width="{room * whole / top:.1f}" height="14"/>'
            )
        end = LABEL + room * max(value, whole or 0) / top
        said = f"{value:,.0f} of {whole:,.0f}" if whole else f"{value:,.0f}"
        rows.append(
            f'<text class="name" x="{LABEL - 8}" y="{y + 14}">{escape(shortened(name.rpartition(" / ")[2]))}'
            f"<title>{escape(name)}</title></text>"
            f'<rect class="tone-a" x="{LABEL}" y="{y + 3}" width="{room * value / top:.1f}" height="14">'
            f"<title>{escape(name)}: {said}</title></rect>"
            f'<text x="{end + 6:.1f}" y="{y + 14}">{said}</text>'
        )
    return _svg(rows, height, title)


def shortened(name: str, length: int = 30) -> str:
    return name if len(name) <= length else name[: length - 1].rstrip() + "…"


def nice_top(value: float) -> float:
    """The end of an axis: the next number whose quarters are round."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 3, 4, 6, 8, 10) if power * step >= value * (1 - 1e-9))


def _framed(
    marks: Sequence[str], labels: Sequence[str], top: float, across: str, title: str, step: float
) -> str:
    frame = []
    for part in range(5):
        value = top * part / 4
        y = _y(value, top)
        frame.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        frame.append(f'<text class="name" x="{LEFT - 6}" y="{y + 4:.1f}">{_tick(value)}</text>')
    every = max(1, math.ceil(len(labels) / 16))
    for place in range(0, len(labels), every):
        x = LEFT + step * (place + 0.5)
        frame.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 18}">{escape(labels[place])}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    frame.append(f'<text class="tick soft" x="{middle}" y="{HEIGHT - 3}">{escape(across)}</text>')
    return _svg([*frame, *marks], HEIGHT, title)


def _svg(parts: Sequence[str], height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def _tick(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
