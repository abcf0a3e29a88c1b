#!/usr/bin/env python3
"""Print what each form of each launcher is taken for, from the cases that tests/unit/entrypoint/world decides.

scripts/launchers.py            print the table
scripts/launchers.py --write    write it into docs/launchers.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from images import terminal  # noqa: E402
from scripts.pages import markers  # noqa: E402

CASES, PAGE = ROOT / "tests/data/launchers.toml", ROOT / "docs/launchers.md"
HEAD = ("| launcher | form | world | checked | source |", "| --- | --- | --- | --- | --- |")


def read_cases() -> list[dict[str, Any]]:
    """List the forms, in their order."""
    return list(tomllib.loads(CASES.read_text())["case"])


def fill(text: str, cases: Iterable[Mapping[str, Any]]) -> str:
    """Return the page with one row for each form."""
    return markers.fill(text, "launchers", [*HEAD, *map(write_row, cases)], PAGE.name)


def write_row(case: Mapping[str, Any]) -> str:
    """Return the row of one form."""
    world = case.get("world") or f"refused: {case['refused']}"
    checked = "run for real" if case.get("checked") else "environment only"
    cells = (case["launcher"], case["form"], world, checked, case["source"])
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(argv: list[str] | None = None) -> int:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write it into docs/launchers.md")
    if parser.parse_args(argv).write:
        PAGE.write_text(fill(PAGE.read_text(), read_cases()))
    else:
        print(*HEAD, *map(write_row, read_cases()), sep="\n")
    return 0


if __name__ == "__main__":
    terminal.end_at_interrupt()
    sys.exit(main())
