"""A directory of wheels: what is in it, which wheel is meant for a package, and which cannot be used."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.metadata import parse_email
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.model import PLATFORM
from images.wheels import archive
from images.wheels.members import METHODS

LONGEST = 1 << 20  # bytes of METADATA that are read: the name and the version come first
INSTALLED_FROM = (".whl", ".tar.gz", ".zip")
DAMAGED = (*archive.UNREADABLE, RuntimeError, OSError)  # an encrypted file is a RuntimeError


class Wheel(NamedTuple):
    """A wheel, by what the name of its file says."""

    path: Path
    name: str
    version: Version
    tags: frozenset[Tag]


class Problem(NamedTuple):
    """What is wrong with wheels of one package: the fact, the names of the files, and what to do."""

    fact: str
    value: str
    remedy: str


def tags(python: str, glibc: str) -> list[Tag]:
    """Return the tags of wheels that an image of this Python and glibc can run, best first (PEP 425, PEP 600)."""
    major, minor = map(int, python.split("."))
    newest = int(glibc.split(".")[1])
    names = []
    for release in range(newest, PLATFORM.oldest_glibc - 1, -1):
        names += [f"manylinux_2_{release}", *filter(None, [PLATFORM.legacy.get(release)])]
    platforms = [f"{name}_{PLATFORM.machine}" for name in (*names, "linux")]
    return [
        *cpython_tags((major, minor), platforms=platforms),
        *compatible_tags((major, minor), interpreter=f"cp{major}{minor}", platforms=platforms),
    ]


def holds(directory: str | None, url: str | None) -> bool:
    """Return whether an address is that of a file in a directory, however its characters are encoded.

    uv leaves `..` out of an address, and follows no links.
    """
    if directory is None or url is None or not url.startswith("file:"):
        return False
    file = os.path.normpath(url2pathname(urlsplit(url).path))
    return Path(file).parent == Path(os.path.normpath(Path(directory).absolute()))


def has(directory: Path, name: str, version: str, fit: frozenset[Tag] | None = None) -> bool:
    """Return whether a directory has a wheel of a release, with one of the tags that `fit`; 2.4.0 is also 2.4.0+cpu."""
    found = (wheel for wheel in _wheels(directory) if wheel.name == canonicalize_name(name))
    return any(_is(wheel.version, version) and (fit is None or wheel.tags & fit) for wheel in found)


def directories(links: Iterable[str]) -> list[Path]:
    """Return those of pip's links that are directories on this machine."""
    return [place for place in map(_local, links) if place and place.is_dir()]


def is_absent(link: str) -> bool:
    """Return whether one of pip's links is a place on this machine that is not there."""
    place = _local(link)
    try:
        return place is not None and not place.exists()
    except PermissionError:  # it is in a directory that is closed to this user
        return True


def _local(link: str) -> Path | None:
    """Return the place of a link on this machine, None for an address elsewhere."""
    if link.startswith("file:"):
        return Path(url2pathname(urlsplit(link).path))
    return None if "://" in link else Path(link)


def contents(directory: Path, store: Store) -> list[tuple[str, str]]:
    """Return name and sha256 of every wheel and source archive in a directory.

    A file is read once, as long as its size, its times and its place on the disk stay the same.
    Raises UserFault when one cannot be read.
    """
    found = []
    for path in sorted(directory.iterdir()):
        if path.name.endswith(INSTALLED_FROM) and path.is_file():
            found.append((path.name, _sha256(path, store)))
    return found


def require(named: str) -> Path:
    """Return the directory that the user named, as an absolute path.

    Raises UserFault where it is not there.
    """
    place = Path(named).absolute()
    if not place.is_dir():
        raise UserFault("no such directory", named, "--wheelhouse with a directory of wheels")
    return place


def find(directory: Path, name: str, digest: str, store: Store) -> Path | None:
    """Return where a directory has a file of this name and sha256, of whatever kind; None where it has not."""
    path = directory / name
    return path if path.is_file() and _sha256(path, store) == digest else None


def _sha256(path: Path, store: Store) -> str:
    try:
        return store.sha256(path)
    except PermissionError as error:
        raise UserFault("cannot read a file of the wheelhouse", path, f"chmod a+r {path}") from error


def refuse(directory: Path, pins: Iterable[tuple[str, str]], python: str, glibc: str) -> None:
    """Raise UserFault unless a directory has one good wheel, or none, for each package as (name, version).

    A version without a local part means any, as in a requirement: 2.13.0 is also 2.13.0+cpu (PEP 440).
    The message names every wheel that cannot be used.
    """
    wheels, fit = list(_wheels(directory)), frozenset(tags(python, glibc))
    found: list[Problem] = []
    others: set[Wheel] = set()
    for name, version in sorted(set(pins)):
        pinned = [wheel for wheel in wheels if wheel.name == canonicalize_name(name) and _is(wheel.version, version)]
        fitting = [wheel for wheel in pinned if wheel.tags & fit]
        others.update(pinned if not fitting else ())
        found += _problems(directory, pinned, fitting, f"Python {python}, glibc {glibc}, {PLATFORM.machine}")
    found = list(dict.fromkeys(found))  # a package can be pinned twice, as 2.13.0 and as 2.13.0+cpu
    if len(found) == 1:
        raise UserFault(*found[0])
    if found:
        value, remedy = "; ".join(f"{one.fact}: {one.value}" for one in found), f"mend {directory}, or leave it out"
        if len(others) == len(found) and (other := _python(others, glibc)):
            remedy = f"--python {other}, for which these wheels are, or leave {directory} out"
        raise UserFault("wheels of the wheelhouse cannot be used", value, remedy)


def _python(wheels: Iterable[Wheel], glibc: str) -> str | None:
    """Return the one Python that can use all these wheels, as 3.11; None where there is none."""
    interpreters = {tag.interpreter for wheel in wheels for tag in wheel.tags}
    match = re.fullmatch(r"cp3(\d+)", interpreters.pop()) if len(interpreters) == 1 else None
    python = f"3.{match[1]}" if match else None
    return python if python and all(wheel.tags & frozenset(tags(python, glibc)) for wheel in wheels) else None


def _wheels(directory: Path) -> Iterator[Wheel]:
    """Yield every file that has the name of a wheel; installers ignore other files."""
    for path in sorted(directory.glob("*.whl")):
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if path.is_file():
            yield Wheel(path, name, version, tags)


def _is(version: Version, pinned: str) -> bool:
    try:
        return version.public == Version(pinned).public
    except InvalidVersion:
        return False


def _problems(directory: Path, pinned: Sequence[Wheel], fitting: Sequence[Wheel], image: str) -> Iterator[Problem]:
    if pinned and not fitting:
        fact = "the wheelhouse has this package only for another Python or system than the image's"
        yield Problem(
            fact, f"{_names(pinned)} (the image: {image})", f"a wheel for that, or take it out of {directory}"
        )
    elif len(fitting) > 1:
        fact = "the wheelhouse has more than one wheel for a package, and nothing says which is meant"
        yield Problem(fact, _names(fitting), f"leave one of them in {directory}")
    wrong = [problem for wheel in fitting for problem in _untrue(wheel, directory)]
    yield from wrong or (_unfit(fitting[0], directory) if len(fitting) == 1 else ())


def _untrue(wheel: Wheel, directory: Path) -> Iterator[Problem]:
    """Compare the name of a wheel's file with its METADATA."""
    try:
        name, version = _metadata(wheel.path)
    except DAMAGED as error:
        value = f"{wheel.path.name} ({str(error) or 'it is cut short'})"
        remedy = f"download it again, or take it out of {directory}"
        yield Problem("a wheel of the wheelhouse is damaged", value, remedy)
        return
    if canonicalize_name(name) != wheel.name or not _same(wheel.version, version):
        value = f"{wheel.path.name} (METADATA: {name} {version})"
        remedy = f"the wheel as its maker published it, or take it out of {directory}"
        yield Problem("a wheel of the wheelhouse is not what its name says", value, remedy)


def _unfit(wheel: Wheel, directory: Path) -> Iterator[Problem]:
    """Check everything else that an installer needs."""
    try:
        archive.check(wheel.path)
    except WorldFault as fault:
        remedy = f"the wheel as its maker published it, or take it out of {directory}"
        yield Problem("a wheel of the wheelhouse cannot be installed", fault.value, remedy)


def _metadata(path: Path) -> tuple[str, str]:
    """Return name and version of a wheel's METADATA.

    Raises one of DAMAGED when it has none that can be read.
    """
    with zipfile.ZipFile(path) as file:
        info = next((info for info in file.infolist() if archive.METADATA.fullmatch(info.filename)), None)
        if info is None:
            raise zipfile.BadZipFile("no METADATA")
        archive.require_inside(file, info)
        if info.compress_type not in METHODS:
            raise zipfile.BadZipFile(f"METADATA is compressed by method {info.compress_type}, not by deflate")
        with file.open(info) as stream:
            raw, _ = parse_email(stream.read(LONGEST))
    return raw.get("name", ""), raw.get("version", "")


def _same(version: Version, said: str) -> bool:
    try:
        return Version(said) == version
    except InvalidVersion:
        return False


def _names(wheels: Iterable[Wheel]) -> str:
    return ", ".join(wheel.path.name for wheel in wheels)
