"""Which Pythons a root file system has, and which directories they import packages from."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from images.base.overlay import Tree

NAME = re.compile(r"python(3\.[0-9]+)")
VIRTUAL = "pyvenv.cfg"  # in the prefix of a virtual environment (PEP 405)


def interpreters(tree: Tree, bins: Sequence[str]) -> dict[str, str]:
    """Return the interpreters in some directories as 3.X -> file; the first directory that has a 3.X counts.

    A link in a virtual environment is none: its prefix is another one than that of the file that it leads to.
    """
    found: dict[str, str] = {}
    for directory in filter(None, map(tree.directory, bins)):
        for name in tree.names(directory):
            version, file = NAME.fullmatch(name), tree.find(f"{directory}/{name}")
            if version and file and file[1].kind == "f" and not is_virtual(tree, directory):
                found.setdefault(version[1], file[0])
    return found


def is_virtual(tree: Tree, directory: str) -> bool:
    """Return whether programs in a directory are those of a virtual environment."""
    return tree.find(f"{posixpath.dirname(directory)}/{VIRTUAL}") is not None


def sites_of(tree: Tree, interpreter: str, python: str, release: Mapping[str, str]) -> tuple[str, ...]:
    """Return where a Python imports packages from: Debian's has directories of its own, others go by their prefix."""
    prefix = posixpath.dirname(posixpath.dirname(interpreter))
    first, others = f"{prefix}/lib/python{python}/site-packages".lstrip("/"), list[str]()
    if prefix == "usr" and "debian" in (release.get("ID"), *release.get("ID_LIKE", "").split()):
        first = f"usr/local/lib/python{python}/dist-packages"
        others = ["usr/lib/python3/dist-packages", f"usr/lib/python{python}/dist-packages"]
    return tuple(dict.fromkeys([tree.directory(first) or first, *filter(None, map(tree.directory, others))]))


def mark(tree: Tree, interpreter: str, python: str) -> str | None:
    """Return the file beside a Python's own modules by which pip refuses to install anything (PEP 668)."""
    prefix = posixpath.dirname(posixpath.dirname(interpreter))
    found = tree.find(f"{prefix}/lib/python{python}/EXTERNALLY-MANAGED", follow=False)
    return found[0] if found else None
