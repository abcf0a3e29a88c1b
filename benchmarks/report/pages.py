"""What README.md and docs/benchmarks.md have of docs/benchmarks.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.figures import file, promises
from benchmarks.figures.measured import of_json
from benchmarks.host import machine
from benchmarks.host.commands import ROOT
from benchmarks.report import plots, scaling, tables

FIGURES = ROOT / "docs/benchmarks.json"
SUMMARY, SCALING = "summary", "scaling"
MADE = (SUMMARY, *file.PARTS, SCALING)
NOTHING = "Not measured yet."
REMEDY = "git checkout docs/benchmarks.json"


def read() -> dict[str, Any]:
    """Return the figures of all parts; raise UserFault when they are missing or damaged."""
    return file.whole(FIGURES, REMEDY)


def draw() -> None:
    """Draw the plots of the pages; raise UserFault when figures are missing or damaged."""
    plots.draw(read(), FIGURES.parent)


def maker(name: str) -> Callable[[], list[str]]:
    """Return what makes a part of the pages of the figures in docs/benchmarks.json."""
    return lambda: make(name, read())


def make(name: str, parts: Mapping[str, Any]) -> list[str]:
    """Return the lines of a part of the pages."""
    writers = {SUMMARY: summary, SCALING: write_scaling}
    return (writers[name](parts) if name in writers else section(name, parts)).splitlines()


def write_scaling(parts: Mapping[str, Any]) -> str:
    """Return what the page says of many nodes, with the plot where it is drawn."""
    plot = f"\n\n![How many times as fast as one node]({plots.NODES})" if scaling.works(parts) else ""
    return f"{scaling.write(parts)}{plot}"


def section(name: str, parts: Mapping[str, Any]) -> str:
    """Return what the page says of a part."""
    if name not in parts:
        return NOTHING
    text = tables.whole(name, parts[name])
    if name == "store" and len(parts[name]["facts"].get("curve", [])) > 1:
        text += f"\n\n![Disk and seconds over the number of releases]({plots.STORE})"
    return text


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
