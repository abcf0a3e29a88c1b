"""What a wheel says of itself: the modules at its top, and of its METADATA what an image and its SBOM need."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple, cast

from packaging.metadata import RawMetadata, parse_email

from images.host.errors import WorldFault
from images.host.store import Store
from images.wheels.archive import METADATA

# Of the core metadata; the description, which is a whole README, is not among it.
FIELDS = ("name", "version", "summary", "home_page", "project_urls", "license", "license_expression", "classifiers")


class About(NamedTuple):
    """The top-level modules of a wheel, in order, and of its METADATA the FIELDS that it has."""

    modules: list[str]
    metadata: RawMetadata


def about(store: Store, digest: str, path: Path) -> About:
    """Return what a wheel says of itself; it is opened once, and the store keeps what was read.

    Raises WorldFault when it cannot be read.
    """
    return About(*store.cached("about wheels", digest, lambda: _read(path)).value)


def _read(wheel: Path) -> About:
    try:
        with zipfile.ZipFile(wheel) as file:
            names = sorted(file.namelist())
            found = [name for name in names if METADATA.fullmatch(name)]
            said = parse_email(file.read(found[0]) if found else b"")[0]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        remedy = "build again: a file that is damaged or missing in the store is fetched anew"
        raise WorldFault("cannot read a wheel", f"{wheel.name} ({error})", remedy) from error
    modules = sorted({module for name in names if (module := _module(name))})
    return About(modules, cast("RawMetadata", {name: value for name, value in said.items() if name in FIELDS}))


def _module(path: str) -> str | None:
    """Return the module of a path in a wheel if it is at the top: `name/__init__.py`, `name.py` or an extension."""
    head, _, rest = path.partition("/")
    if rest == "__init__.py" and head.isidentifier():
        return head
    stem = head.partition(".")[0]
    if not rest and head.endswith((".py", ".so")) and stem.isidentifier():
        return stem
    return None
