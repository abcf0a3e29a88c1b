"""A chart of curves over the steps of a training, as SVG, by arithmetic alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from multinode_image.report.trainings import Point

# The size of a chart in its own units, and what axes take of it; a page makes it as wide as there is room.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 250, 52, 14, 12, 36
# Columns of a long curve, each of which keeps its least and its largest value; points that are shown one by one.
COLUMNS, FEW = 400, 60
# Ticks that an axis has about, the steps between them in powers of ten, and what counts as no difference.
TICKS, STEPS, TINY = 5, (1.0, 2.0, 2.5, 5.0, 10.0), 1e-290


class Line(NamedTuple):
    """A curve: its name, the number of its colour, its points, and whether it is drawn with dashes."""

    name: str
    colour: int
    points: Sequence[Point]
    dashed: bool = False


class Range(NamedTuple):
    """What an axis shows."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Return where a value is, from 0 to 1."""
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)  # the whole range of numbers has no width


def draw(lines: Sequence[Line], title: str, unit: str = "step", *, from_zero: bool = False) -> str:
    """Return a chart; title: for who hears the page; unit: of the axis; from_zero: whether values begin at 0."""
    shown = [(line, [point for point in line.points if math.isfinite(point[1])]) for line in lines]
    points = [point for _, part in shown for point in part]
    steps = span([step for step, _ in points], from_zero=True)
    values = span([value for _, value in points], from_zero=from_zero)
    curves = (part for line, _ in shown for part in draw_line(line, steps, values, unit))
    parts = [*draw_grid(steps, values, unit), *curves]
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, *parts, "</svg>"])


def span(values: Iterable[float], *, from_zero: bool) -> Range:
    """Return the range of an axis, which ends at ticks; what is near zero, for its size, begins there."""
    ordered = sorted(values) or [0.0]
    low, high = float(ordered[0]), float(ordered[-1])
    if from_zero or 0 < low < high / 3:
        low = min(low, 0.0)
    size = max(abs(low), abs(high))
    if high - low <= size * 1e-12 + TINY:  # one value, for all that can be told apart
        room = size / 2 if size > TINY else 1.0
        low, high = low - room, high + room
    return Range(low, high)


def list_ticks(axis: Range) -> list[float]:
    """List round numbers within an axis."""
    raw = axis.high / TICKS - axis.low / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size for size in (factor * power for factor in STEPS) if size >= raw * 0.999)
    first, last = math.ceil(axis.low / step - 1e-9), math.floor(axis.high / step + 1e-6)
    return [number * step for number in range(first, last + 1)]


def across(steps: Range, step: float) -> float:
    """Return how far right a step is."""
    return LEFT + steps.place(step) * (WIDTH - LEFT - RIGHT)


def down(values: Range, value: float) -> float:
    """Return how far down a value is."""
    return HEIGHT - BOTTOM - values.place(value) * (HEIGHT - TOP - BOTTOM)


def draw_grid(steps: Range, values: Range, unit: str) -> Iterable[str]:
    """Yield a line with its number for each tick."""
    for tick in list_ticks(values):
        y = f"{down(values, tick):.1f}"
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{LEFT - 6}" y="{y}" dy="4" text-anchor="end">{write_short(tick)}</text>'
    bottom = HEIGHT - BOTTOM
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    for tick in list_ticks(steps):
        yield f'<text x="{across(steps, tick):.1f}" y="{bottom + 16}" text-anchor="middle">{write_short(tick)}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(unit)}</text>'


def draw_line(line: Line, steps: Range, values: Range, unit: str) -> Iterable[str]:
    """Yield a curve, in parts where a value between is no number, and its points where they are few."""
    kind = f"line c{line.colour}{' dashed' if line.dashed else ''}"
    for part in split(line.points):
        places = " ".join(f"{across(steps, step):.1f},{down(values, value):.1f}" for step, value in thin(part))
        yield f'<polyline class="{kind}" points="{places}"/>'
    if len(line.points) <= FEW:
        for step, value in line.points:
            if math.isfinite(value):
                place = f'cx="{across(steps, step):.1f}" cy="{down(values, value):.1f}" r="2.5"'
                said = escape(f"{line.name}, {unit} {step}: {write_short(value)}")
                yield f'<circle class="dot c{line.colour}" {place}><title>{said}</title></circle>'


def split(points: Sequence[Point]) -> Iterable[list[Point]]:
    """Yield the parts of a curve between values that are no numbers."""
    part: list[Point] = []
    for point in points:
        if math.isfinite(point[1]):
            part.append(point)
        elif part:
            yield part
            part = []
    if part:
        yield part


def thin(points: Sequence[Point]) -> Sequence[Point]:
    """Return a curve with as many points as can be seen: of each column its least and its largest value."""
    if len(points) <= 2 * COLUMNS:
        return points
    size = math.ceil(len(points) / COLUMNS)
    columns = (points[start : start + size] for start in range(0, len(points), size))
    kept = ({min(column, key=by_value), max(column, key=by_value)} for column in columns)
    return [points[0], *(point for pair in kept for point in sorted(pair)), points[-1]]


def by_value(point: Point) -> float:
    """Return the value of a point."""
    return point[1]


def write_short(value: float) -> str:
    """Return a number in a few letters: 0.4123, 12.5k, 2e-5."""
    size = abs(value)
    if size < 10_000 and value == int(value):
        return str(int(value))
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if least <= size < 1e12:
            return f"{value / (1e3 if unit == 'k' else least):.3g}{unit}"
    if 1e-3 <= size < 1e12:
        return f"{value:.4g}"
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{float(digits):g}e{int(power)}"
