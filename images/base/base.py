"""What a base image is, wherever it comes from: its layers, what is in them, and its Python."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from packaging.version import Version

from images.host.errors import UserFault
from images.model import Facts, Site

# The newest that a wheel may ask for, from each glibc of its manylinux tag on: pypa/auditwheel 6.8.2,
# policy/manylinux-policy.json.
GLIBCXX = (
    ("2.5", "3.4.8"),
    ("2.12", "3.4.13"),
    ("2.17", "3.4.19"),
    ("2.24", "3.4.22"),
    ("2.27", "3.4.24"),
    ("2.31", "3.4.28"),
    ("2.34", "3.4.29"),
    ("2.35", "3.4.30"),
    ("2.39", "3.4.33"),
)


UID, GID = 1000, 0  # of the user that an image starts with


def of_debian(python: str) -> Site:
    """Return Debian's directory for what pip installs (posix_local), and what Debian's own pip writes into scripts."""
    return Site(python, f"usr/local/lib/python{python}/dist-packages", "/usr/bin/python3")


def refuse(facts: Facts, name: str, python: str, glibc: str) -> None:
    """Refuse a base that cannot work: musl, glibc or libstdc++ too old for wheels of `glibc`, no Python `python` (3.X).

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
    symbols = _glibcxx(glibc)
    if Version(known.glibcxx.get(python, symbols)) < Version(symbols):
        yield f"its libstdc++ has GLIBCXX_{known.glibcxx[python]}, wheels ask for GLIBCXX_{symbols}"
    if known.shell is None:
        yield "it has no shell (/bin/sh), by which mpirun and ssh start ranks"
    if python not in known.pythons:
        yield f"it has no Python {python} (it has {', '.join(sorted(known.pythons)) or 'none'})"
    elif known.commands.get("python3", python) != python:
        yield f"its python3 is {known.commands['python3'] or 'another program'}, not {python}"
    if closed := _closed(known, python):
        yield f"its Python is in {closed}, which uid {UID} may not enter"


def _closed(known: Facts, python: str) -> str | None:
    """Return the first directory on the way to a Python, or to its packages, that our user may not enter."""
    paths = [known.pythons.get(python, ""), *known.sites.get(python, ())[:1]]
    above = {str(directory) for path in paths for directory in PurePosixPath(path).parents}
    return next(
        (f"/{path}" for path in sorted(above & known.directories.owners.keys()) if not _enters(known, path)), None
    )


def _enters(known: Facts, path: str) -> bool:
    mode, uid, gid = known.directories.owners[path]
    return bool(mode & (0o100 if uid == UID else 0o010 if gid == GID else 0o001))


def _glibcxx(glibc: str) -> str:
    """Return the newest symbol version that wheels for a glibc may ask for."""
    fitting = (symbols for since, symbols in GLIBCXX if Version(since) <= Version(glibc))
    return max(fitting, key=Version, default=GLIBCXX[0][1])
