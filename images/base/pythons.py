"""Which Pythons a root file system has, and which directories they import packages from."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from images.base.overlay import Tree

NAME = re.compile(r"python(3\.[0-9]+)")
VIRTUAL = "pyvenv.cfg"
# Distributions whose Python in /usr also imports from /usr/local (Fedora: Changes/Making_sudo_pip_safe; SUSE:
# localpath.patch); Python itself knows its own prefix only.
LOCAL = {"fedora", "rhel", "centos", "suse", "opensuse"}


def interpreters(tree: Tree, bins: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the interpreters in some directories as 3.X -> (file, start); the first directory that has a 3.X counts.

    `start` is the path to start it by, whose prefix it goes by: that of the file behind links. But a link in a virtual
    environment is what makes Python look there (PEP 405).
    """
    return {version: (file, start) for version, file, start in reversed(list(_interpreters(tree, bins)))}


def sites_of(tree: Tree, interpreter: str, python: str, release: Mapping[str, str]) -> tuple[str, ...]:
    """Return where a Python imports packages from: Debian's has directories of its own, others go by their prefix."""
    prefix = posixpath.dirname(posixpath.dirname(interpreter))
    family = {release.get("ID"), *release.get("ID_LIKE", "").split()}
    if prefix == "usr" and "debian" in family:
        first = f"usr/local/lib/python{python}/dist-packages"
        others = ["usr/lib/python3/dist-packages", f"usr/lib/python{python}/dist-packages"]
    else:
        prefixes = ["usr/local", "usr"] if prefix == "usr" and family & LOCAL else [prefix]
        directories = [
            f"{p}/{lib}/python{python}/site-packages".lstrip("/")
            for p in prefixes
            for lib in _libs(tree, prefix, python)
        ]
        first, others = directories[0], directories[1:]
    found = [tree.directory(first) or first, *filter(None, map(tree.directory, others))]
    return tuple(dict.fromkeys(found))


def _libs(tree: Tree, prefix: str, python: str) -> tuple[str, ...]:
    """Return the directories of a prefix that have packages, the first one first: that of Python's own modules."""
    place = f"{prefix}/lib64/python{python}/os.py".lstrip("/")
    found = tree.find(place)
    return ("lib64", "lib") if found and found[0] == place else ("lib",)  # lib64 may be a link to lib, as in Arch Linux


def mark(tree: Tree, interpreter: str, python: str) -> str | None:
    """Return the file beside a Python's own modules by which pip refuses to install anything (PEP 668)."""
    prefix = posixpath.dirname(posixpath.dirname(interpreter))
    places = (f"{prefix}/{lib}/python{python}/EXTERNALLY-MANAGED" for lib in ("lib", "lib64"))
    return next((found[0] for place in places if (found := tree.find(place, follow=False))), None)


def _interpreters(tree: Tree, bins: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for directory in bins:
        place = tree.directory(directory)
        for name in tree.names(place or "") if place else ():
            version = NAME.fullmatch(name)
            found = tree.find(f"{place}/{name}")
            if version and found and found[1].kind == "f" and _is_called(found[0], version[1]):
                above = posixpath.dirname(place or "")
                yield version[1], found[0], f"{place}/{name}" if tree.find(f"{above}/{VIRTUAL}") else found[0]


def _is_called(file: str, version: str) -> bool:
    """Return whether a file has no other version in its name: conda has a link python3.1 to python3.11."""
    own = NAME.fullmatch(posixpath.basename(file))
    return own is None or own[1] == version
