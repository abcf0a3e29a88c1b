"""The picture of a report in the pages: its charts of two trainings that tests/data has, in one file of SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from multinode_image.report.charts import HEIGHT, WIDTH, Line, draw
from multinode_image.report.page import FROM_ZERO, choose_axis, list_charts, title_chart, write_style
from multinode_image.report.trainings import read_training
from multinode_image.results.states import SPEED, WAITING

ROOT = Path(__file__).resolve().parents[2]
TRAININGS = ROOT / "tests/data/trainings"
PLACE = ROOT / "docs/curves.svg"
NAMES, SHOWN = ("one", "two"), ("loss", "learning_rate", SPEED, WAITING)
# What is around a chart, in the units of the chart.
GAP, HEADING, KEY = 16, 26, 22


def draw_trainings() -> str:
    """Return the picture as SVG."""
    trainings = [read_training(str(TRAININGS / name)) for name in NAMES]
    unit, sizes = choose_axis(trainings)
    charts = dict(list_charts(trainings, [f"{name} rank{'s' * (name != 'one')}" for name in NAMES], sizes))
    width, height = 2 * WIDTH + 3 * GAP, 2 * (HEIGHT + HEADING + KEY) + 3 * GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    style = f"<style>{write_style()}\nsvg {{ width: auto; font-family: sans-serif; background: var(--paper) }}</style>"
    cards = (
        f'<g transform="translate({GAP + column * (WIDTH + GAP)} {GAP + row * (HEIGHT + HEADING + KEY + GAP)})">'
        f"{''.join(draw_card(metric, charts[metric], unit))}</g>"
        for number, metric in enumerate(SHOWN)
        for row, column in [divmod(number, 2)]
    )
    return "\n".join([head, style, *cards, "</svg>"]) + "\n"


def draw_card(metric: str, lines: list[Line], unit: str) -> Iterator[str]:
    """Yield a chart with its title above it and its key below."""
    whole, title = HEIGHT + HEADING + KEY, title_chart(metric)
    yield f'<rect width="{WIDTH}" height="{whole}" rx="8" fill="var(--card)" stroke="var(--rule)"/>'
    yield f'<text x="14" y="20" font-weight="bold" font-size="14" fill="var(--ink)">{escape(title)}</text>'
    chart = draw(lines, title, unit, from_zero=metric in FROM_ZERO)
    yield chart.replace("<svg ", f'<svg x="0" y="{HEADING}" width="{WIDTH}" height="{HEIGHT}" ', 1)
    for number, line in enumerate(lines):
        x, y = 14 + 200 * number, whole - 12
        kind = f"line c{line.colour}{' dashed' if line.dashed else ''}"
        yield f'<polyline class="{kind}" points="{x},{y - 4} {x + 24},{y - 4}"/>'
        yield f'<text x="{x + 30}" y="{y}" font-size="12" fill="var(--quiet)">{escape(line.name)}</text>'
