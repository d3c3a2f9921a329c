"""Small charts as inline SVG: no script, no library, nothing to load.

Colours come from the page's style sheet, so that a chart works on dark and light backgrounds. Every mark has
a title for tooltips and screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 520
HEIGHT = 220
SQUARE = 360
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 12, 34
ROW = 22
LABEL = 210
TONES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Series:
    """A named series of numbers."""

    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    """Quartiles, drawn as a shaded band."""


@dataclass(frozen=True)
class Curve:
    """Points of two shares, joined by a line in order."""

    name: str
    points: Sequence[tuple[float, float]]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    """Vertical interval of each point, drawn as a bar."""


def bars(labels: Sequence[str], series: Sequence[Series], *, across: str, title: str) -> str:
    """Draw vertical bars; the series of one label are stacked."""
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
    """Draw a line for each series, with a shaded band if it has quartiles."""
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
    """Draw horizontal bars in the given order; `of` draws the possible maximum behind each.

    A label shows the last part of a name such as "art / lettering"; its title shows the whole name.
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


def square(curves: Sequence[Curve], *, across: str, up: str, title: str, diagonal: bool = False) -> str:
    """Draw curves of shares from 0 to 1 on both axes, optionally with the diagonal as the target."""
    left, side = LEFT + 14, SQUARE - LEFT - 14 - RIGHT
    floor = TOP + side

    def place(across_share: float, up_share: float) -> tuple[float, float]:
        return left + side * across_share, floor - side * up_share

    parts = []
    for part in range(5):
        value = part / 4
        (x, y), end = place(value, value), left + side
        parts.append(f'<line class="grid" x1="{left}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="name" x="{left - 6}" y="{y + 4:.1f}">{value:g}</text>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{floor + 16}">{value:g}</text>')
    middle = floor - side / 2
    parts.append(f'<text class="tick soft" x="{left + side / 2}" y="{floor + 32}">{escape(across)}</text>')
    parts.append(
        f'<text class="tick soft" x="12" y="{middle}" transform="rotate(-90 12 {middle})">{escape(up)}</text>'
    )
    if diagonal:
        parts.append(f'<line class="aim" x1="{left}" y1="{floor}" x2="{left + side}" y2="{TOP}"/>')
    for tone, curve in zip(TONES, curves, strict=False):
        parts += _curve(curve, tone, place, across, up)
    return _svg(parts, floor + 38, title, SQUARE)


def _curve(
    curve: Curve, tone: str, place: Callable[[float, float], tuple[float, float]], across: str, up: str
) -> list[str]:
    spots = [place(*point) for point in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    parts = [f'<polyline class="line-{tone}" points="{path}"/>']
    for number, ((x, y), (share, height)) in enumerate(zip(spots, curve.points, strict=True)):
        said = f"{curve.name}: {across} {share:.3f}, {up} {height:.3f}"
        if curve.low:
            low, high = curve.low[number], curve.high[number]
            (_, bottom), (_, top) = place(share, low), place(share, high)
            said += f" ({low:.3f} to {high:.3f})"
            parts.append(
                f'<line class="line-{tone}" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom:.1f}" y2="{top:.1f}"/>'
            )
        parts.append(
            f'<circle class="tone-{tone}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
            f"<title>{escape(said)}</title></circle>"
        )
    return parts


def as_file(svg: str) -> str:
    """Return a chart as a standalone file, with its colours on white."""
    opened, _, rest = svg.partition(">")
    return f'{opened} xmlns="http://www.w3.org/2000/svg"><style>{_FILE_STYLE}</style>{rest}'


_FILE_STYLE = (
    "svg{background:#fff}text{fill:#22202a;font:12px system-ui,sans-serif}.name{text-anchor:end}"
    ".tick{text-anchor:middle}.soft{fill:#6b6873}.grid{stroke:#e2ded4}"
    ".aim{stroke:#8d8a92;stroke-dasharray:4 4}"
    + "".join(
        f".tone-{tone}{{fill:{colour}}}.line-{tone}{{fill:none;stroke:{colour};stroke-width:2}}"
        for tone, colour in zip(TONES, ("#2f6f9f", "#c9762b", "#8a5aa8", "#8d8a92"), strict=True)
    )
)


def shortened(name: str, length: int = 30) -> str:
    return name if len(name) <= length else name[: length - 1].rstrip() + "…"


def nice_top(value: float) -> float:
    """Return the end of an axis: the next number whose quarters are round."""
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


def _svg(parts: Sequence[str], height: float, title: str, width: float = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def _tick(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
