"""What README.md and docs/benchmarks.md have of docs/benchmarks.json: written there, and made with the site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.figures import file, promises
from benchmarks.figures.measured import of_json
from benchmarks.host import machine
from benchmarks.host.commands import ROOT
from benchmarks.report import markers, plots, scaling, tables

FIGURES = ROOT / "docs/benchmarks.json"
README = ROOT / "README.md"
# What the page has when it is made with the site.
ON_THE_PAGE = (*file.PARTS, "scaling")
SUMMARY = "figures of summary"
NOTHING = "Not measured yet."
REMEDY = "git checkout docs/benchmarks.json"


def write() -> None:
    """Write the table of the README anew, and draw the plots.

    Raises UserFault when figures are missing or damaged, and ends the program where the README lacks the markers; then
    nothing is written.
    """
    found = file.whole(FIGURES, REMEDY)
    text = fill(README.read_text(), found)
    plots.draw(found, FIGURES.parent)
    README.write_text(text)


def fill(text: str, parts: Mapping[str, Any]) -> str:
    """Return the text of the README with its figures written anew."""
    return markers.fill(text, SUMMARY, [summary(parts)], README.name)


def maker(name: str) -> Callable[[], list[str]]:
    """Return what makes a part of the page of the figures in docs/benchmarks.json."""
    return lambda: make(name, file.read(FIGURES))


def make(name: str, parts: Mapping[str, Any]) -> list[str]:
    """Return the lines of a part of the page."""
    return (write_scaling(parts) if name == "scaling" else section(name, parts)).splitlines()


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
    shown = [each for each in verdicts if each.promise.in_readme and each.value is not None]
    if not shown:
        return NOTHING
    machines = {name: part["machine"] for name, part in parts.items() if name in {each.promise.part for each in shown}}
    rows = [f"| {each.promise.what} | {each.text} |" for each in shown]
    missed = sum(each.state == promises.MISSED for each in verdicts)
    first = f"Medians on {places(machines)}."
    last = f"[All figures](docs/benchmarks.md) with their limits; missed: {missed}."
    return "\n".join([first, "", "| what | measured |", "|---|---|", *rows, "", last])


def places(machines: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the machines that parts were measured on; one is named once, several with their parts."""
    found: dict[str, list[str]] = {}
    for part, described in machines.items():
        busy = ", with other work beside it" if machine.is_busy(described) else ""
        found.setdefault(f"{machine.shortened(described)}{busy}", []).append(part)
    if len(found) == 1:
        return next(iter(found))
    return "; on ".join(f"{place} ({', '.join(names)})" for place, names in found.items())
