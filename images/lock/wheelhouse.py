"""A wheelhouse: which of its wheels is meant for a package, and which cannot be."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.metadata import parse_email
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from images.host.errors import UserFault

METADATA = re.compile(r"[^/]+\.dist-info/METADATA")


class Wheel(NamedTuple):
    """A wheel by what its name says."""

    path: Path
    name: str
    version: Version
    tags: frozenset[Tag]


class Problem(NamedTuple):
    """What is wrong with wheels of one package: the fact, the files, what to do."""

    fact: str
    value: str
    remedy: str


def tags(python: str, glibc: str) -> list[Tag]:
    """Return the tags of wheels that an image of this Python and glibc can run, best first (PEP 425, PEP 600)."""
    major, minor = map(int, python.split("."))
    newest = int(glibc.split(".")[1])
    legacy = {17: "manylinux2014_x86_64", 12: "manylinux2010_x86_64", 5: "manylinux1_x86_64"}
    platforms = []
    for release in range(newest, 4, -1):
        platforms += [f"manylinux_2_{release}_x86_64"] + ([legacy[release]] if release in legacy else [])
    platforms.append("linux_x86_64")
    return [
        *cpython_tags((major, minor), platforms=platforms),
        *compatible_tags((major, minor), interpreter=f"cp{major}{minor}", platforms=platforms),
    ]


def refuse(folder: Path, wanted: Iterable[tuple[str, str]], python: str, glibc: str) -> None:
    """Refuse a folder that does not have one good wheel, or none, for each package as (name, version).

    A version without a local part has any, as in a requirement: 2.13.0 is also 2.13.0+cpu (PEP 440).
    Raises UserFault that names every such wheel.
    """
    there, fit = list(_wheels(folder)), frozenset(tags(python, glibc))
    found: list[Problem] = []
    for name, version in sorted(set(wanted)):
        meant = [wheel for wheel in there if wheel.name == canonicalize_name(name) and _is(wheel.version, version)]
        fitting = [wheel for wheel in meant if wheel.tags & fit]
        found += _problems(folder, meant, fitting, f"Python {python}, glibc {glibc}, x86_64")
    if len(found) > 1:
        value, remedy = "; ".join(f"{one.fact}: {one.value}" for one in found), f"mend {folder}, or leave it out"
        raise UserFault("wheels of the wheelhouse cannot be used", value, remedy)
    for problem in found:
        raise UserFault(*problem)


def _wheels(folder: Path) -> Iterator[Wheel]:
    """List what is a wheel by its name; installers do not look at other files."""
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        yield Wheel(path, name, version, tags)


def _is(version: Version, wanted: str) -> bool:
    try:
        return version.public == Version(wanted).public
    except InvalidVersion:
        return False


def _problems(folder: Path, meant: Sequence[Wheel], fitting: Sequence[Wheel], image: str) -> Iterator[Problem]:
    if meant and not fitting:
        fact = "the wheelhouse has this package only for another Python or system than the image's"
        yield Problem(fact, f"{_names(meant)} (the image: {image})", f"a wheel for that, or take it out of {folder}")
    elif len(fitting) > 1:
        fact = "the wheelhouse has more than one wheel for a package, and nothing says which is meant"
        yield Problem(fact, _names(fitting), f"leave one of them in {folder}")
    for wheel in fitting:
        yield from _untrue(wheel, folder)


def _untrue(wheel: Wheel, folder: Path) -> Iterator[Problem]:
    """Compare a wheel's name with its METADATA."""
    try:
        name, version = _metadata(wheel.path)
    except (zipfile.BadZipFile, zlib.error, StopIteration, EOFError, NotImplementedError, RuntimeError) as error:
        value = f"{wheel.path.name} ({error or 'no METADATA'})"
        yield Problem("a wheel of the wheelhouse is damaged", value, f"download it again, or take it out of {folder}")
        return
    if canonicalize_name(name) != wheel.name or not _same(wheel.version, version):
        value = f"{wheel.path.name} (METADATA: {name} {version})"
        remedy = f"the wheel as its maker published it, or take it out of {folder}"
        yield Problem("a wheel of the wheelhouse is not what its name says", value, remedy)


def _metadata(path: Path) -> tuple[str, str]:
    with zipfile.ZipFile(path) as archive:
        raw, _ = parse_email(archive.read(next(filter(METADATA.fullmatch, archive.namelist()))))
    return raw.get("name", ""), raw.get("version", "")


def _same(version: Version, said: str) -> bool:
    try:
        return Version(said) == version
    except InvalidVersion:
        return False


def _names(wheels: Iterable[Wheel]) -> str:
    return ", ".join(wheel.path.name for wheel in wheels)
