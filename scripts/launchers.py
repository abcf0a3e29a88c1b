#!/usr/bin/env python3
"""Print what each form of each launcher is taken for, from the cases that tests/unit/entrypoint/launchers decides.

scripts/launchers.py            print the table
scripts/launchers.py --write    write docs/launchers.md anew
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from images import terminal  # noqa: E402

CASES, PAGE = ROOT / "tests/data/launchers.toml", ROOT / "docs/launchers.md"
HEAD = """\
# Launchers

What the entrypoint takes each form of each launcher for. A test decides every row from the variables of that form, in
`tests/data/launchers.toml`, from which a script writes this page.

**Checked** is "run for real" where a test, which is named, types this form in containers and counts the ranks that
meet, or waits for the refusal. Slurm, MPICH and Open MPI 4.1 are Debian's there, Open MPI 5 is that of PyPI. The
operators of Kubeflow do not run: the containers have the variables, names and files that an operator would give them.
"Environment only" is a form that no test starts. **Source** says where the variables of a row come from: recorded in
a run of the launcher, or read in the document or the source that is named.

**World** is the place of this process: "rank 1 of 2 on 1 node, 1 of 2 here" is rank 1 of two, and number 1 (from 0)
of the two on its node; "at" is where rank 0 is.

"Port of X" is a port between 20000 and 28999 that follows from X, which only the ranks of one job share. MASTER_PORT
always wins where you set it. HYDRA_CONTROL_PORT is no variable of MPICH's: it is where `mpiexec` listens, and is read
in the command line of the proxy that starts the ranks. "If rank 0 is there" says that the node is the first of the
scheduler's list: rank 0 checks it, and ends the job where it is on another node.

| launcher | form | world | checked | source |
| --- | --- | --- | --- | --- |
"""


def read_cases() -> list[dict[str, Any]]:
    """List the forms, in their order."""
    return list(tomllib.loads(CASES.read_text())["case"])


def write_page(cases: list[dict[str, Any]]) -> str:
    """Return the page with one row for each form."""
    return HEAD + "".join(write_row(case) for case in cases)


def write_row(case: dict[str, Any]) -> str:
    """Return the row of one form."""
    world = case.get("world") or f"refused: {case['refused']}"
    test = case.get("checked", "")
    checked = f"run for real: `{test.partition('::')[2]}`" if test else "environment only"
    cells = (case["launcher"], case["form"], world, checked, case["source"])
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main(argv: list[str] | None = None) -> int:
    """Print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/launchers.md")
    text = write_page(read_cases())
    if parser.parse_args(argv).write:
        PAGE.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    terminal.end_at_interrupt()
    sys.exit(main())
