"""The parts of README.md and docs/benchmarks.md that are written from docs/benchmarks.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import file, promises
from benchmarks.figures.measured import of_json
from benchmarks.host import machine
from benchmarks.host.commands import ROOT
from benchmarks.report import plots, scaling, tables
from scripts.pages import markers

FIGURES = ROOT / "docs/benchmarks.json"
PAGE, README = ROOT / "docs/benchmarks.md", ROOT / "README.md"
# The parts of each page, which begin with `<!-- figures of NAME -->`.
PAGES: Mapping[Path, Sequence[str]] = {PAGE: (*file.PARTS, "scaling"), README: ("summary",)}
NOTHING = "Not measured yet."
REMEDY = "git checkout docs/benchmarks.json"


def write() -> None:
    """Write both pages anew, and draw the plots.

    Raises UserFault when figures are missing or damaged, and ends the program where a page lacks the markers of a part;
    then nothing is written.
    """
    parts = file.whole(FIGURES, REMEDY)
    texts = {page: fill(page, names, parts) for page, names in PAGES.items()}
    plots.draw(parts, FIGURES.parent)
    for page, text in texts.items():
        page.write_text(text)


def fill(page: Path, names: Sequence[str], parts: Mapping[str, Any]) -> str:
    """Return the text of a page with these parts written anew."""
    text = page.read_text()
    for name in names:
        written: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"summary": summary, "scaling": scaling.write}
        lines = written[name](parts) if name in written else section(name, parts)
        text = markers.fill(text, f"figures of {name}", [lines], page.name)
    return text


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
