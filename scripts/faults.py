#!/usr/bin/env python3
"""Print what happens when something breaks in a cluster, from the tests that break it (tests/support/faults.py).

scripts/faults.py            print the table
scripts/faults.py --write    write it into docs/clusters.md
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from images import terminal  # noqa: E402

if __name__ == "__main__":
    terminal.end_at_interrupt()

from tests.support.faults import Fault, read_fault  # noqa: E402

PAGE = ROOT / "docs/clusters.md"
BEGIN, END = "<!-- faults -->\n", "<!-- end -->"
HEAD = """\
| what happens | what one sees | exit code | at most after | how to go on |
| --- | --- | --- | --- | --- |
"""


def read_faults() -> list[Fault]:
    """List the rows of all tests that need containers, by their files and as they are written there."""
    paths = [path for place in ("cluster", "image") for path in sorted((ROOT / "tests" / place).glob("test_*.py"))]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths if "@fault(" in path.read_text()]
    found = (read_fault(test) for name in names for test in vars(importlib.import_module(name)).values())
    return [row for row in found if row is not None]


def write_row(row: Fault) -> str:
    """Return the row of a fault."""
    said = "<br>".join(f"`{message}`" for message in row.said)
    code = ", ".join(f"{code} ({name})" if name else str(code) for name, code in row.codes.items())
    cells = (row.what, said, code, f"{row.within} s", row.remedy)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def fill(text: str, rows: Iterable[Fault]) -> str:
    """Put the table between its markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"error: {PAGE.name} has no markers for the table\n  try: {BEGIN}{END}")
    return "".join([before, begin, "\n", HEAD, *(write_row(row) for row in rows), "\n", end, after])


def main(argv: list[str] | None = None) -> int:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write it into docs/clusters.md")
    if parser.parse_args(argv).write:
        PAGE.write_text(fill(PAGE.read_text(), read_faults()))
    else:
        print(HEAD + "".join(write_row(row) for row in read_faults()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
