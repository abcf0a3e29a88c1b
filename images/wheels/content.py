"""What is in a wheel: opened once, when it arrives, when its files are compared with RECORD.

Layers take a file by the hash in RECORD afterwards, and read nothing twice.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

from packaging.metadata import RawMetadata, parse_email

from images.host.store import Store
from images.wheels import archive
from images.wheels.archive import CheckedWheel
from images.wheels.members import Member
from images.wheels.record import refuse_content

DATA = ".data/data/"  # after the name and the release of a wheel: what goes below the prefix
# Of the core metadata; the description, which is a whole README, is not among it.
FIELDS = ("name", "version", "summary", "home_page", "project_urls", "license", "license_expression", "classifiers")


class Library(NamedTuple):
    """A shared library that goes below the prefix: its path there, its checksum, the name inside (DT_SONAME)."""

    path: str
    checksum: int
    name: str | None


class Content(NamedTuple):
    """What later steps ask of a wheel: its shared libraries below the prefix, the modules at its top, in order, and of
    its METADATA the FIELDS that it has.
    """

    libraries: list[Library]
    modules: list[str]
    metadata: RawMetadata


def content(store: Store, digest: str, path: Path) -> Content:
    """Return what is in a wheel, whose files are what RECORD says; the store keeps what was read.

    Raises WorldFault when a file is another one, or the wheel cannot be installed.
    """
    libraries, modules, metadata = store.cached("wheel contents", digest, lambda: _read(store, path)).value
    return Content([Library(*each) for each in libraries], modules, metadata)


def _read(store: Store, path: Path) -> Content:
    names: dict[int, str | None] = {}  # by checksum: a wheel holds no links, and has a library once for each name
    found = []
    with archive.opened(path) as wheel:
        for member in wheel.members:
            place, checksum = member.info.filename.partition(DATA)[2], member.info.CRC
            if ".so" not in posixpath.basename(place):
                _compare(wheel, member)
                continue
            if checksum not in names:
                names[checksum] = _compare_library(wheel, member, store)
            else:
                _compare(wheel, member)
            found.append(Library(place, checksum, names[checksum]))
        said, _ = parse_email(wheel.read(f"{wheel.dist_info_dir}/METADATA"))
        modules = sorted({module for name in wheel.names if (module := _module(name))})
    return Content(found, modules, cast("RawMetadata", {name: value for name, value in said.items() if name in FIELDS}))


def _module(path: str) -> str | None:
    """Return the module of a path in a wheel if it is at the top: `name/__init__.py`, `name.py` or an extension."""
    head, _, rest = path.partition("/")
    if rest == "__init__.py" and head.isidentifier():
        return head
    stem = head.partition(".")[0]
    return stem if not rest and head.endswith((".py", ".so")) and stem.isidentifier() else None


def _compare_library(wheel: CheckedWheel, member: Member, store: Store) -> str | None:
    """Do what `_compare` does; return the name inside a library, of which some have too many bytes for the memory."""
    from images.foreign import libraries  # with pyelftools, which a build does without that knows all of its files

    with store.temporary() as copy, copy.open("w+b") as file:
        _compare(wheel, member, file.write)
        return libraries.soname(file)


def _compare(wheel: CheckedWheel, member: Member, seen: Callable[[bytes], object] = lambda _: None) -> None:
    """Raise ValueError when the content of a file is not what RECORD says; `seen` gets all of it."""
    row = wheel.row(member.info.filename)
    hashed = hashlib.new(row.hash_.name if row and row.hash_ else "sha256")
    for chunk in member.chunks():
        hashed.update(chunk)
        seen(chunk)
    if row:
        refuse_content(row, hashed.digest())
