"""Write the golden data again: `python -m tests.golden [NAME...]`, all of them or those of the modules named.

A change is a commit of its own with a line in CHANGELOG.md (CONTRIBUTING.md, "Golden data").
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from tests.golden import data

# Each module of this package that has FILES (see data.py).
MODULES = ("plans", "refusals")


def main(names: Sequence[str]) -> int:
    """Renew the files of the named modules, of all without names; return the exit code."""
    if unknown := [name for name in names if name not in MODULES]:
        print(f"error: no such golden data: {', '.join(unknown)}\n  try: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    for name in names or MODULES:
        files = import_module(f"tests.golden.{name}").FILES
        changed = data.renew(files)
        print(f"{name}: {len(files)} files, {len(changed)} changed", *changed, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
