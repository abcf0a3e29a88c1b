"""A directory of wheels: what is in it, and which wheel is meant for a package."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from images.host.errors import UserFault
from images.pip_config import local_path
from images.platforms import Platform
from images.store.store import Store

INSTALLED_FROM = (".whl", ".tar.gz", ".zip")
LETTERS = re.compile(r"[\w.+!-]+")  # of a wheel's name (PEP 427), where packaging takes "any (1)" for a platform
COPY = re.compile(r" ?\(\d{1,4}\)\.whl$")  # the end of a second copy's name


class WheelFile(NamedTuple):
    """A wheel, by what the name of its file says."""

    path: Path
    name: str
    version: Version
    tags: frozenset[Tag]


def tags(python: str, glibc: str, platform: Platform) -> list[Tag]:
    """Return the tags of wheels that an image of this Python, glibc and machine runs, best first (PEP 425, PEP 600)."""
    major, minor = map(int, python.split("."))
    newest = int(glibc.split(".")[1])
    names = []
    for release in range(newest, platform.oldest_glibc - 1, -1):
        names += [f"manylinux_2_{release}", *filter(None, [platform.legacy.get(release)])]
    platforms = [f"{name}_{platform.machine}" for name in (*names, "linux")]
    return [
        *cpython_tags((major, minor), platforms=platforms),
        *compatible_tags((major, minor), interpreter=f"cp{major}{minor}", platforms=platforms),
    ]


def is_file_of(directory: str | None, url: str | None) -> bool:
    """Return whether an address is that of a file in a directory, however its characters are encoded.

    uv leaves `..` out of an address, and follows no links.
    """
    place = local_path(url) if url else None
    if directory is None or place is None:
        return False
    return Path(os.path.normpath(place)).parent == Path(os.path.normpath(Path(directory).absolute()))


def has_wheel(directory: Path, name: str, version: str, fit: frozenset[Tag] | None = None) -> bool:
    """Return whether a directory has a wheel of a release, with one of the tags that `fit`; 2.4.0 is also 2.4.0+cpu."""
    wheels = (wheel for wheel in _list_wheels(directory) if wheel.name == canonicalize_name(name))
    return any(_is(wheel.version, version) and (fit is None or wheel.tags & fit) for wheel in wheels)


def hash_files(directory: Path, store: Store) -> list[tuple[str, str]]:
    """Return name and sha256 of every wheel and source archive in a directory.

    A file is read once, as long as its size, its times and its place on the disk stay the same.
    """
    files = []
    for path in sorted(directory.iterdir()):
        if path.name.endswith(INSTALLED_FROM) and path.is_file():
            files.append((path.name, store.sha256(path)))
    return files


def require_directory(named: str) -> Path:
    """Return the directory that the user named, as an absolute path.

    Raises UserFault where it is not there, or has a wheel whose name no installer can read: it would be passed over.
    """
    place = Path(named).absolute()
    if not place.is_dir():
        raise UserFault("no such directory", named, "--wheelhouse with a directory of wheels")
    misnamed = [path for path in sorted(place.glob("*.whl")) if _parse_filename(path) is None]
    if misnamed:
        value = ", ".join(path.name for path in misnamed)
        raise UserFault("that is not the name of a wheel", f"{value} (in {named})", _renaming(misnamed[0]))
    return place


def _renaming(path: Path) -> str:
    """Return what to do with a file of a wrong name: browsers and copies write + as %2B, and a second copy as (1)."""
    right = path.with_name(COPY.sub(".whl", unquote(path.name)))
    old, new = shlex.quote(str(path)), shlex.quote(str(right))
    if _parse_filename(right) is None:
        return f"the name that its index has for it; or move it out of the directory: mv {old} ..."
    return f"rm {old}: {right.name} is there, too" if right.exists() else f"mv {old} {new}"


def refuse_unfit(directory: Path, pins: Iterable[tuple[str, str]], python: str, glibc: str, platform: Platform) -> None:
    """Raise UserFault where a directory has none but wheels that do not fit for a package, given as (name, version).

    A version without a local part means any, as in a requirement: 2.13.0 is also 2.13.0+cpu (PEP 440).
    The message names every such wheel.
    """
    wheels, fit = list(_list_wheels(directory)), frozenset(tags(python, glibc, platform))
    unfit: list[str] = []
    for name, version in sorted(set(pins)):
        pinned = [wheel for wheel in wheels if wheel.name == canonicalize_name(name) and _is(wheel.version, version)]
        if not any(wheel.tags & fit for wheel in pinned):
            unfit += [wheel.path.name for wheel in pinned]
    if unfit:
        fact = "the wheelhouse has a package only for another Python or system than the image's"
        value = f"{', '.join(dict.fromkeys(unfit))} (the image: Python {python}, glibc {glibc}, {platform.machine})"
        remedy = f"--python with the Python that these wheels are for, another one beside them in {directory}, or none"
        raise UserFault(fact, value, remedy)


def _list_wheels(directory: Path) -> Iterator[WheelFile]:
    """Yield every file that has the name of a wheel; installers ignore other files."""
    return filter(None, map(_parse_filename, sorted(directory.glob("*.whl"))))


def _parse_filename(path: Path) -> WheelFile | None:
    if not LETTERS.fullmatch(path.name):
        return None
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename:  # also for a version that is none
        return None
    return WheelFile(path, name, version, tags)


def _is(version: Version, pinned: str) -> bool:
    try:
        return version.public == Version(pinned).public
    except InvalidVersion:
        return False
