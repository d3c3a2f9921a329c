"""Line charts of values between 0 and 1 over time or steps, as self-contained SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 760, 300, 56, 40, 56, 18


@dataclass(frozen=True)
class Series:
    """One line: label, points and style."""

    label: str
    points: Sequence[tuple[float, float]]
    ink: str
    width: float = 2.0
    dashed: bool = False


def chart(series: Sequence[Series], *, across: str, every: int, legend: tuple[int, int] = (470, 96)) -> str:
    """Draw all lines in one SVG; `across` names the axis, which has a tick at each multiple of `every`."""
    last = max(x for each in series for x, _ in each.points)

    def place(x: float, y: float) -> tuple[float, float]:
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - TOP
        return LEFT + x / last * width, HEIGHT - BOTTOM - min(1.0, max(0.0, y)) * height

    parts: list[str] = []
    for tenths in range(0, 11, 2):
        _, y = place(0, tenths / 10)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e3ded3"/>')
        parts.append(_label(LEFT - 8, y + 4, f"{tenths / 10:.1f}", "end"))
        parts.append(_label(WIDTH - RIGHT + 8, y + 4, f"{tenths * 10} %", "start"))
    for number in range(0, int(last) + 1, every):
        parts.append(_label(place(number, 0)[0], HEIGHT - BOTTOM + 18, str(number), "middle"))
    parts.append(_label(WIDTH / 2, HEIGHT - 6, across, "middle"))
    parts += [_line([place(x, y) for x, y in each.points], each) for each in series]
    parts += _legend(series, legend)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12" '
        'font-family="system-ui, sans-serif">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fdfcf9"/>\n{body}\n</svg>\n'
    )


def _label(x: float, y: float, said: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#6d675e">{said}</text>'


def _line(points: Sequence[tuple[float, float]], series: Series) -> str:
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="7 4"' if series.dashed else ""
    style = f'fill="none" stroke="{series.ink}" stroke-width="{series.width}"{dash}'
    return f'<path d="{path}" {style}><title>{series.label}</title></path>'


def _legend(series: Sequence[Series], corner: tuple[int, int]) -> Iterable[str]:
    left, top = corner
    for row, each in enumerate(series):
        y = top + 18 * row
        yield _line([(left, y), (left + 28, y)], each)
        yield f'<text x="{left + 36}" y="{y + 4}" fill="#23211d">{each.label}</text>'
