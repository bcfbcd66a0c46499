"""Plots as SVG, made by hand: logarithmic lines and bars, readable on light and dark pages."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 190, 46, 56
COLOURS = {
    "scry": "#d1495b",
    "scry --nonblocking": "#edae49",
    "scry --reader memory": "#8c4a9e",
    "py-spy": "#00798c",
    "py-spy --nonblocking": "#66c2c9",
    "profiling.sampling": "#5b6ee1",
    "austin": "#7a9e3b",
}


def colour(name: str) -> str:
    return COLOURS.get(name, "#888888")


def page(title: str, parts: list[str], height: int = HEIGHT) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{WIDTH / 2}" y="24" text-anchor="middle" font-size="15">{escape(title)}</text>'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def short(value: float) -> str:
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


def text(x: float, y: float, words: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{escape(words)}</text>'


class Log:
    """A logarithmic axis over whole decades."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        self.high = max(self.high, self.low + 1)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        share = (math.log10(max(value, 1e-12)) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def lines(
    title: str, x_name: str, y_name: str, series: dict[str, list[tuple[float, float]]]
) -> str:
    """Both axes logarithmic, with the diagonal where what is asked is what comes."""
    points = [point for line in series.values() for point in line if point[1] > 0]
    if not points:
        return page(title, [])
    x = Log(min(p[0] for p in points), max(p[0] for p in points), LEFT, WIDTH - RIGHT)
    y = Log(min(p[1] for p in points), max(p[1] for p in points), HEIGHT - BOTTOM, TOP)
    parts = []
    for tick in x.ticks():
        at = x.at(tick)
        parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#dddddd"/>')
        parts.append(text(at, HEIGHT - BOTTOM + 18, short(tick), "middle"))
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 8, at + 4, short(tick), "end"))
    low, high = max(x.low, y.low), min(x.high, y.high)
    parts.append(
        f'<path d="M{x.at(10**low):.1f} {y.at(10**low):.1f}L{x.at(10**high):.1f} {y.at(10**high):.1f}" '
        'stroke="#999999" stroke-dasharray="4 4"/>'
    )
    for number, (name, line) in enumerate(series.items()):
        shown = [(x.at(a), y.at(b)) for a, b in line if b > 0]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in shown)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour(name)}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour(name)}"/>' for a, b in shown
        ]
        top = TOP + 10 + 20 * number
        parts.append(
            f'<rect x="{WIDTH - RIGHT + 16}" y="{top - 9}" width="10" height="10" fill="{colour(name)}"/>'
        )
        parts.append(text(WIDTH - RIGHT + 32, top, name))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, x_name, "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(text(18, middle, y_name, "middle", f'transform="rotate(-90 18 {middle})"'))
    return page(title, parts)


def bars(title: str, groups: dict[str, dict[str, float]], unit: str, floor: float) -> str:
    """One group of horizontal bars for each target; the axis is logarithmic and begins at `floor`."""
    values = [v for group in groups.values() for v in group.values()]
    if not values:
        return page(title, [])
    left = 190
    x = Log(floor, max([*values, floor * 10]), left, WIDTH - 70)
    parts, at = [], TOP + 4
    for name, group in groups.items():
        parts.append(text(10, at + 12, name, extra='font-weight="bold"'))
        for tool, value in group.items():
            width = max(1.0, x.at(max(value, floor)) - left)
            parts.append(text(left - 6, at + 11, tool, "end", 'font-size="10"'))
            parts.append(
                f'<rect x="{left}" y="{at + 2}" width="{width:.1f}" height="11" fill="{colour(tool)}"/>'
            )
            shown = f"{value:.2g} {unit}" if value >= floor else f"under {floor:g} {unit}"
            parts.append(text(left + width + 5, at + 11, shown, extra='font-size="10"'))
            at += 15
        at += 10
    return page(title, parts, at + 10)
