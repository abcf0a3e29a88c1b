"""What a base image is, wherever it comes from: its layers, what is in them, and its Python."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from images.host.errors import UserFault
from images.model import Facts, Site


def of_debian(python: str) -> Site:
    """Return Debian's directory for what pip installs (posix_local), and what Debian's own pip writes into scripts."""
    return Site(python, f"usr/local/lib/python{python}/dist-packages", "/usr/bin/python3")


def refuse(facts: Facts, name: str, python: str, glibc: str) -> None:
    """Refuse a base that cannot work: musl, a glibc too old for wheels of `glibc`, no Python `python` (3.X).

    Raises UserFault that names every reason at once.
    """
    if reasons := list(_reasons(facts, python, glibc)):
        remedy = f"a base with glibc {glibc} or newer and Python {python}, or --base debian"
        raise UserFault("that base cannot work", f"{name}: {'; '.join(reasons)}", remedy)


def _reasons(known: Facts, python: str, glibc: str) -> Iterable[str]:
    if known.musl:
        yield "its C library is musl, and wheels of torch need glibc"
    elif known.glibc is None:
        yield "it has no glibc that could be found"
    elif Version(known.glibc) < Version(glibc):
        yield f"its glibc is {known.glibc}, {glibc} is needed"
    if known.shell is None:
        yield "it has no shell (/bin/sh), by which mpirun and ssh start ranks"
    if python not in known.pythons:
        yield f"it has no Python {python} (it has {', '.join(sorted(known.pythons)) or 'none'})"
    elif known.commands.get("python3", python) != python:
        yield f"its python3 is {known.commands['python3'] or 'another program'}, not {python}"
