"""What README.md and docs/benchmarks.md have of docs/benchmarks.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from benchmarks import figures, promises
from benchmarks.figures import of_json, written
from benchmarks.host import machine
from benchmarks.host.commands import ROOT
from benchmarks.report import scaling, tables
from images.host.errors import UserFault

FIGURES = ROOT / "docs/benchmarks.json"
PICTURE = ROOT / "docs/benchmarks.svg"
SUMMARY, SCALING = "summary", "scaling"
PARTS = (SUMMARY, *figures.PARTS, SCALING)
NOTHING = "Not measured yet."
REMEDY = "git checkout docs/benchmarks.json"
# What is done, the part, and two figures, whose ratio is how many times as fast ours is as the guide's way.
FASTER: Sequence[tuple[str, str, str, str]] = (
    ("train qa on lengths like SQuAD's", "train", "squad ours speed", "squad guide speed"),
    ("train glue on lengths like MRPC's", "train", "mrpc ours speed", "mrpc guide speed"),
    ("train glue on lengths like QQP's", "train", "qqp ours speed", "qqp guide speed"),
    ("the same in two containers", "train", "qqp ours speed in two", "qqp guide speed in two"),
    ("build an image and push it", "build", "guide first pushed", "ours first pushed"),
    ("build another transformers and push it", "build", "guide next pushed", "ours next pushed"),
)


def read() -> dict[str, Any]:
    """Return the figures of all parts; raise UserFault when they are missing or damaged."""
    parts = figures.read(FIGURES, REMEDY)
    if not parts:
        raise UserFault("there are no figures to write", FIGURES, REMEDY)
    return parts


def maker(name: str) -> Callable[[], list[str]]:
    """Return what makes a part of the pages of the figures in docs/benchmarks.json."""
    return lambda: make(name, read())


def make(name: str, parts: Mapping[str, Any]) -> list[str]:
    """Return the lines of a part of the pages."""
    writers = {SUMMARY: summary, SCALING: scaling.write}
    return (writers[name](parts) if name in writers else section(name, parts)).splitlines()


def section(name: str, parts: Mapping[str, Any]) -> str:
    """Return what the page says of a part."""
    return tables.whole(name, parts[name]) if name in parts else NOTHING


def summary(parts: Mapping[str, Any]) -> str:
    """Return what the README says: where the figures come from, a few of them, and how many miss their limit."""
    verdicts = promises.judge({name: of_json(part) for name, part in parts.items()})
    shown = [verdict for verdict in verdicts if verdict.promise.in_readme and verdict.value is not None]
    if not shown:
        return NOTHING
    of_shown = {verdict.promise.part for verdict in shown}
    machines = {name: part["machine"] for name, part in parts.items() if name in of_shown}
    rows = [f"| {verdict.promise.what} | {verdict.text} |" for verdict in shown]
    missed = sum(verdict.state == promises.MISSED for verdict in verdicts)
    first = f"Medians on {places(machines)}."
    last = f"[All figures](docs/benchmarks.md) with their limits; missed: {missed}."
    return "\n".join([first, "", "| what | measured |", "|---|---|", *rows, "", last])


def places(machines: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the machines that parts were measured on; one is named once, several with their parts."""
    by_machine: dict[str, list[str]] = {}
    for part, described in machines.items():
        busy = ", with other work beside it" if machine.is_busy(described) else ""
        by_machine.setdefault(f"{machine.shortened(described)}{busy}", []).append(part)
    if len(by_machine) == 1:
        return next(iter(by_machine))
    return "; on ".join(f"{place} ({', '.join(names)})" for place, names in by_machine.items())


def draw_speed() -> str:
    """Return the picture of how many times as fast ours is as the guide's way, by bars as long as the logarithm."""
    parts, height = read(), 26
    ratios = [(what, of_json(parts.get(part, {})).ratio(one, other)) for what, part, one, other in FASTER]
    bars = [(what, ratio) for what, ratio in ratios if ratio is not None]
    scale = 360 / math.log(max((ratio for _, ratio in bars), default=math.e))  # that of the longest, in pixels
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 {height * (len(bars) + 1) + 8}" '
        'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for number, (what, ratio) in enumerate(bars):
        y = height * number + 6
        lines.append(f'<text x="260" y="{y + 15}" text-anchor="end">{escape(what)}</text>')
        width = round(math.log(max(ratio, 1)) * scale)
        lines.append(f'<rect x="268" y="{y}" width="{width}" height="20" fill="#1f77b4"/>')
        lines.append(f'<text x="{274 + width}" y="{y + 15}">{written(ratio, "ratio")} times</text>')
    scale_of_bars = "as fast as the guide's way (logarithmic)"
    lines.append(f'<text x="268" y="{height * len(bars) + 22}">{scale_of_bars}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
