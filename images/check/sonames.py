"""Shared libraries in the directories that the loader searches: a name must not be in two packages.

The loader asks a cache, and directories in an order; ldconfig, which a derived image's apt-get runs, puts what it finds
there into that cache by the name inside (DT_SONAME), whatever the file is called. Where a name is there once, no
cache and no order decides which file is found.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from images.host.errors import UserFault
from images.host.store import Store
from images.layers import trim
from images.model import Wheel
from images.platforms import PLATFORMS
from images.wheels.content import content

# Debian: ld.so.conf.d/libc.conf and that of its multiarch directory, and the loader's own two (ld.so(8)). What is for
# another machine is in the way of nobody, and no wheel brings it.
SEARCHED = frozenset(place for each in PLATFORMS for place in (*each.libraries, f"usr/local/lib/{each.multiarch}"))
BASE = "the base"


class Library(NamedTuple):
    """A library: a name that it is found by, the package that it is of, its path, and its content in short."""

    name: str
    package: str
    path: str
    crc: int


def refuse(
    found: Sequence[Wheel], base: Iterable[str], hidden: Collection[str], store: Store, *, trimmed: bool
) -> None:
    """Refuse wheels that bring a library which another one of them or the base has; `base` are the paths of its own.

    What `hidden` names, and what a wheel puts a file over, the base has no more.
    Raises UserFault that names every such library.
    """
    brought = [library for wheel in found for library in _of_wheel(wheel, store, trimmed=trimmed)]
    covered = {*hidden, *(library.path for library in brought)}
    below = [one for one in _of_base(base) if covered.isdisjoint((one.path, *_above(one.path)))]
    if clashes := _clashes([*brought, *below], {library.name for library in brought}):
        remedy = "a --wheelhouse without one of the packages' libraries, or another --base"
        raise UserFault("two packages bring the same library to where the loader looks", "; ".join(clashes), remedy)


def _clashes(libraries: Iterable[Library], brought: Collection[str]) -> list[str]:
    """Find the names that differ in more than the package: equal files at one path are one file."""
    places: dict[str, dict[str, Library]] = defaultdict(dict)
    for library in libraries:
        places[library.name].setdefault(library.package, library)
    return [
        f"{name} (" + ", ".join(f"{one.package}: /{one.path}" for one in owners.values()) + ")"
        for name, owners in sorted(places.items())
        if name in brought and len({(one.path, one.crc) for one in owners.values()}) > 1
    ]


def _of_base(paths: Iterable[str]) -> Iterator[Library]:
    """List a base's by file names: a package of a distribution has a link by the DT_SONAME (Debian policy, 8.1)."""
    for path in paths:
        directory, name = posixpath.split(path)
        if directory in SEARCHED:
            yield Library(name, BASE, path, 0)


def _of_wheel(wheel: Wheel, store: Store, *, trimmed: bool) -> Iterator[Library]:
    """List a wheel's by the names of its files and by those inside them."""
    left_out = trim.pattern(wheel.project) if trimmed else None
    for path, checksum, inside in content(store, wheel.sha256, wheel.path).libraries:
        directory, name = posixpath.split(f"usr/local/{path}")
        if directory in SEARCHED and not (left_out and left_out.match(f"data/{path}")):
            yield from (
                Library(each, wheel.project, f"{directory}/{name}", checksum) for each in {name, inside or name}
            )


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
