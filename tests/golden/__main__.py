"""Write the golden data again: `python -m tests.golden [NAME...]`, all of them or those that are named.

A change is a commit of its own with a line in CHANGELOG.md (CONTRIBUTING.md, "Before you send a change").
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from tests.golden import data

# Directory below tests/data/golden -> the module that makes its files. Each is imported only when it is needed.
MODULES = {
    "plan": "tests.golden.plans",
    "refusals": "tests.golden.refusals",
    "images": "tests.golden.images",
    "explain": "tests.golden.explain",
    "messages": "tests.golden.messages",
    "manifests": "tests.golden.manifests",
    "printed": "tests.golden.printed",
    "published": "tests.golden.published",
    "programs": "tests.golden.programs",
    "options": "tests.golden.options",
    "debian": "tests.golden.debian",
    "bases": "tests.golden.base",
}


def main(names: Sequence[str]) -> int:
    """Renew the golden data that are named, all of them without names; return the exit code."""
    if unknown := [name for name in names if name not in MODULES]:
        print(f"error: no such golden data: {', '.join(unknown)}\n  try: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    for name in names or MODULES:
        texts = import_module(MODULES[name]).produce()
        changed = data.renew(name, texts)
        print(f"{name}: {len(texts)} files, {len(changed)} changed", *changed, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
