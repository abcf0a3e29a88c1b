"""The tables of pages that are made from data: what breaks, what launchers are taken for, what goes together."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from images.foreign.documents import parse_toml
from images.plan import catalog, matrix
from images.plan.catalog import Torch, Transformers
from scripts.pages import built
from scripts.pages.built import Built

ROOT = Path(__file__).resolve().parents[2]
# How the remedy of a fault begins where a job goes on by itself.
NOTHING = "nothing"
ALIVE = "A job goes on by itself, and there is nothing to do, if"


@dataclass(frozen=True)
class Fault:
    """A row of tests/data/faults.toml, and the test that breaks it; the file says what each field is."""

    test: str
    what: str
    said: tuple[str, ...]
    codes: Mapping[str, int]
    within: int
    remedy: str


def read_faults() -> list[Fault]:
    """List what tests break in containers, in the order of the file."""
    rows = parse_toml((ROOT / "tests/data/faults.toml").read_text())["fault"]
    return [Fault(**{**row, "said": tuple(row["said"])}) for row in rows]


def read_cases() -> list[dict[str, Any]]:
    """List the forms of launchers that tests decide, in the order of the file."""
    return list(parse_toml((ROOT / "tests/data/launchers.toml").read_text())["case"])


def faults() -> list[str]:
    """Return the table of what ends a job, and a list of what a job outlives."""
    rows = read_faults()
    outlived = [row.what for row in rows if row.remedy.startswith(NOTHING)]
    ends = [_fault(row) for row in rows if not row.remedy.startswith(NOTHING)]
    lines = write_table(("what one sees", "what has happened", "exit code", "what to do"), ends)
    return [*lines, *(["", ALIVE, "", *(f"- {what};" for what in outlived)] if outlived else [])]


def _fault(row: Fault) -> Sequence[str]:
    """Return the cells of a fault: the messages come first, for they are what people search for."""
    said = "<br>".join(f"`{message}`" for message in row.said)
    same = len({*row.codes.values()}) == 1
    code = ", ".join(f"{code} ({name})" for name, code in row.codes.items())
    return said, row.what, str(next(iter(row.codes.values()))) if same else code, row.remedy


def launchers() -> list[str]:
    """Return the table of what each form of each launcher is taken for."""
    return write_table(("launcher", "form", "world", "checked", "source"), map(_case, read_cases()))


def _case(case: Mapping[str, Any]) -> Sequence[str]:
    world = case.get("world") or f"refused: {case['refused']}"
    checked = "run for real" if case.get("checked") else "environment only"
    return case["launcher"], case["form"], world, checked, case["source"]


def versions() -> list[str]:
    """Return the table of what goes together; what the tests train is in bold."""
    table = catalog.load()
    tested = {str(version) for version in table.tested_torch}
    rows = [(f"**{name}**" if name in tested else name, *cells) for name, *cells in matrix.matrix(table)]
    return write_table(matrix.HEADINGS, rows)


def images() -> list[str]:
    """Return the table of the images that were built."""
    return write_table(("image", "examples", "base", "size", "digest", "built"), map(_image, built.read()))


def _image(one: Built) -> Sequence[str]:
    what = f"torch {one.torch}, transformers {one.transformers}, {one.backend}, Python {one.python}"
    digest = f"`{one.digest[: len('sha256:') + 12]}`"
    origin = f"{one.day}, commit `{one.commit[:8]}`"
    return what, "yes" if one.examples else "no", one.base, f"{one.size / 1e6:.0f} MB", digest, origin


def ends(day: datetime.date | None = None) -> list[str]:
    """Return who mends what is in the images, or since when there is something newer.

    day: as of which that is said; without one it is that of the newest image, so that the page stays as it is.
    """
    table, rows = catalog.load(), built.read()
    day = day or max(one.day for one in rows)
    suites = [(f"Debian {one.suite}, of {one.released}", f"mended by {one.mended(day)}") for one in table.suites]
    lines = [
        *(_line("torch", one.torch, table.torch) for one in rows),
        *(_line("transformers", one.transformers, table.transformers) for one in rows),
    ]
    return write_table(("what", f"on {day}"), [*suites, *dict.fromkeys(lines)])


def _line(name: str, release: str, known: Mapping[Version, Torch] | Mapping[Version, Transformers]) -> tuple[str, str]:
    """Return a line of releases, such as torch 2.13, and the day of the first release of the next line."""
    line = Version(release).release[:2]
    later = min((version for version in known if version.release[:2] > line), default=None)
    said = f"{later} is newer, since {known[later].released}" if later else "it is the newest"
    return f"{name} {line[0]}.{line[1]}", said


def write_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    rule = ["---"] * len(headings)
    cells = ([cell.replace("|", "\\|") for cell in row] for row in (headings, rule, *rows))
    return [f"| {' | '.join(row)} |" for row in cells]
