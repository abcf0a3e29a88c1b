"""The releases of a project as a package index lists them: files, days of upload, and what was withdrawn."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import requests
from packaging.version import InvalidVersion, Version
from pypi_simple import DistributionPackage, NoSuchProjectError, PyPISimple, UnsupportedRepoVersionError

from images.host import download
from images.host.errors import WorldFault
from images.host.pip_config import Sources
from images.platforms import AMD64

LINUX = re.compile(rf"(?:-cp3(\d+)-cp3\d+)?-[^-]*linux[^-]*_{AMD64.machine}\.whl")  # the end of a wheel's name
UNREADABLE = (
    requests.RequestException, NoSuchProjectError, UnsupportedRepoVersionError, ValueError, KeyError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class File:
    """A file of a release; `yanked` is the reason, None for a file that stands."""

    name: str
    day: datetime.date
    yanked: str | None


# The final releases of a project that have files.
Releases = Mapping[Version, Sequence[File]]


def client(url: str | None, sources: Sources) -> PyPISimple:
    """Return a client of an index, by default of pip's own, which it reaches as pip would."""
    session = download.Session(sources)
    place = url or sources.index
    return PyPISimple(place, session=session) if place else PyPISimple(session=session)


def releases(index: PyPISimple, name: str) -> Releases:
    """Return the final releases of a project.

    Days of upload come from the index's simple API in JSON (PEP 700). Raises WorldFault when that cannot be read, or no
    release is in it.
    """
    try:
        listed = index.get_project_page(name, timeout=download.TIMEOUT).packages
        found = _final((file.version or "", _file(file)) for file in listed)
        if not found:  # a page of something else, as of a proxy that wants a login, reads as one without files
            raise ValueError("the answer names no file of a release")
        return found
    except UNREADABLE as error:
        raise _unread(index, name, error) from error


def _unread(index: PyPISimple, name: str, error: Exception) -> WorldFault:
    remedy = "check the network and proxy settings (HTTPS_PROXY), or --index with another index"
    why = f"{index.get_project_url(name)} ({_reason(error)})"
    return WorldFault("cannot read releases from the index", why, remedy)


def _reason(error: Exception) -> str:
    if isinstance(error, requests.JSONDecodeError):  # its cause is a number
        return f"no JSON: {error}"
    return download.reason(error) if isinstance(error, requests.RequestException) else str(error)


def _file(listed: DistributionPackage) -> File:
    reason = (listed.yanked_reason or "").strip() or "no reason given"
    return File(listed.filename, _day(listed.upload_time), reason if listed.is_yanked else None)


def _day(time: datetime.datetime | None) -> datetime.date:
    if time is None:
        raise ValueError("the index does not say when its files were uploaded")
    return time.date()


def _final(files: Iterable[tuple[str, File]]) -> Releases:
    found: dict[Version, list[File]] = {}
    for text, file in files:
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        if not version.is_prerelease:
            found.setdefault(version, []).append(file)
    return found


def day(files: Iterable[File]) -> datetime.date:
    """Return the first day of a release."""
    return min(file.day for file in files)


def yanked(files: Sequence[File]) -> str | None:
    """Return why a release was withdrawn, or None where any file of it stands."""
    return files[0].yanked if all(file.yanked for file in files) else None


def newest(index: Mapping[str, Releases], name: str, on: datetime.date) -> Version:
    """Return the newest release of a project that had a Linux wheel on a day and still has it.

    Raises WorldFault when there is none.
    """
    found = []
    for version, files in index[name].items():
        standing = [file for file in files if LINUX.search(file.name) and not file.yanked]
        if standing and day(standing) <= on:
            found.append(version)
    if not found:
        remedy = "--index with an index that has older releases, too"
        raise WorldFault("the index has no Linux wheel of that day or before", f"{name}, {on}", remedy)
    return max(found)


def pythons(files: Iterable[File]) -> list[str]:
    """Return the Pythons with a Linux wheel: 3.9, 3.10."""
    found = {match[1] for file in files if (match := LINUX.search(file.name)) and match[1]}
    return [f"3.{minor}" for minor in sorted(map(int, found))]
