#!/usr/bin/env python3
"""Print what happens when something breaks in a cluster, from tests/data/faults.toml, to which the tests are held.

scripts/faults.py            print the table
scripts/faults.py --write    write it into docs/troubleshooting.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from images import terminal  # noqa: E402
from scripts.pages import markers  # noqa: E402

ROWS, PAGE = ROOT / "tests/data/faults.toml", ROOT / "docs/troubleshooting.md"
HEAD = (
    "| what one sees | what has happened | exit code | what to do |",
    "| --- | --- | --- | --- |",
)
# How the remedy begins where a job goes on by itself.
NOTHING = "nothing"
ALIVE = "A job goes on by itself, and there is nothing to do, if"


@dataclass(frozen=True)
class Fault:
    """A row of the table, and the test that breaks it; the file says what each field is."""

    test: str
    what: str
    said: tuple[str, ...]
    codes: Mapping[str, int]
    within: int
    remedy: str


def read_faults() -> list[Fault]:
    """List the rows, in their order."""
    rows = tomllib.loads(ROWS.read_text())["fault"]
    return [Fault(**{**row, "said": tuple(row["said"])}) for row in rows]


def write_row(row: Fault) -> str:
    """Return the row of a fault: the messages come first, for they are what people search for."""
    said = "<br>".join(f"`{message}`" for message in row.said)
    same = len({*row.codes.values()}) == 1
    code = ", ".join(f"{code} ({name})" for name, code in row.codes.items())
    cells = (said, row.what, str(next(iter(row.codes.values()))) if same else code, row.remedy)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def write_all(rows: Sequence[Fault]) -> list[str]:
    """Return the table of what ends a job, and a list of what a job outlives."""
    outlived = [row.what for row in rows if row.remedy.startswith(NOTHING)]
    ends = [write_row(row) for row in rows if not row.remedy.startswith(NOTHING)]
    return [*HEAD, *ends, *(["", ALIVE, "", *(f"- {what};" for what in outlived)] if outlived else [])]


def fill(text: str, rows: Sequence[Fault]) -> str:
    """Return the page with the table written anew."""
    return markers.fill(text, "faults", write_all(rows), PAGE.name)


def main(argv: list[str] | None = None) -> int:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write it into docs/troubleshooting.md")
    if parser.parse_args(argv).write:
        PAGE.write_text(fill(PAGE.read_text(), read_faults()))
    else:
        print(*write_all(read_faults()), sep="\n")
    return 0


if __name__ == "__main__":
    terminal.end_at_interrupt()
    sys.exit(main())
