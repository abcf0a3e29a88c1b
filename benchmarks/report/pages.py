"""The parts of README.md and docs/benchmarks.md that are written from docs/benchmarks.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.figures import file, holds
from benchmarks.figures.measured import of_json
from benchmarks.host import machine
from benchmarks.host.commands import ROOT
from benchmarks.report import plots, tables

FIGURES = ROOT / "docs/benchmarks.json"
PAGE, README = ROOT / "docs/benchmarks.md", ROOT / "README.md"
END = "<!-- end of figures -->"
NOTHING = "Not measured yet."
REMEDY = "git checkout docs/benchmarks.json"


def write() -> None:
    """Write both pages anew, and draw the plots.

    Raises UserFault when figures are missing or damaged; then nothing is written.
    """
    parts = file.whole(FIGURES, REMEDY)
    plots.draw(parts, FIGURES.parent)
    for page in (PAGE, README):
        page.write_text(fill(page.read_text(), parts))


def fill(text: str, parts: Mapping[str, Any]) -> str:
    """Return a page with its marked parts written anew."""
    written = {name: f"\n{section(name, parts)}\n" for name in file.PARTS}
    for name, lines in {**written, "summary": summary(parts)}.items():
        begin = f"<!-- figures of {name} -->"
        start, found, rest = text.partition(begin)
        if found:
            text = f"{start}{begin}\n{lines}\n{END}{rest.partition(END)[2]}"
    return text


def section(name: str, parts: Mapping[str, Any]) -> str:
    """Return what the page says of a part."""
    if name not in parts:
        return NOTHING
    text = tables.whole(name, parts[name])
    if name == "store" and len(parts[name]["facts"].get("curve", [])) > 1:
        text += f"\n\n![Disk and seconds over the number of releases]({plots.NAME})"
    return text


def summary(parts: Mapping[str, Any]) -> str:
    """Return the sentences of the README: the machine, the promises with a short name, and what is missed."""
    verdicts = holds.judge({name: of_json(part) for name, part in parts.items()})
    if not verdicts:
        return NOTHING
    first = next(iter(parts.values()))["machine"]
    busy = ", with other work beside it" if any(machine.is_busy(part["machine"]) for part in parts.values()) else ""
    found = [each.hold.short.format(each.text) for each in verdicts if each.hold.short and each.value is not None]
    missed = [
        f"{each.hold.what} ({each.text}, limit {each.hold.limit})" for each in verdicts if each.state == holds.MISSED
    ]
    where = f"{first['cores']} cores ({first['cpu']}), {first['engine']}{busy}"
    return f"On {where}: {'; '.join(found)}. Missed: {'; '.join(missed) or 'nothing'}."
