"""The releases of a project as a package index lists them: files, days of upload, and what was withdrawn."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pypi_simple import PYPI_SIMPLE_ENDPOINT, DistributionPackage, ProjectPage, UnsupportedRepoVersionError

from images.host.errors import WorldFault
from images.lock import index_pages
from images.pip_config import Sources
from images.platforms import AMD64

LINUX = re.compile(rf"(?:-cp3(\d+)-cp3\d+)?-[^-]*linux[^-]*_{AMD64.machine}\.whl")  # the end of a wheel's name
UNREADABLE = (UnsupportedRepoVersionError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class File:
    """A file of a release; `yanked` is the reason, None for a file that stands."""

    name: str
    day: datetime.date
    yanked: str | None


# The final releases of a project that have files.
Releases = Mapping[Version, Sequence[File]]


def releases(name: str, index: str | None, sources: Sources) -> Releases:
    """Return the final releases of a project in an index, by default pip's own, which is reached as pip would.

    Days of upload come from the index's simple API in JSON (PEP 700). Raises a Fault where the index does not answer,
    WorldFault when what it answers cannot be read, or no release is in it.
    """
    url = f"{(index or sources.index or PYPI_SIMPLE_ENDPOINT).rstrip('/')}/{canonicalize_name(name)}/"
    try:
        known = _final((file.version or "", _file(file)) for file in _page(url, name, sources).packages)
        if not known:  # a page of something else, as of a proxy that wants a login, reads as one without files
            raise ValueError("the answer names no file of a release")
        return known
    except UNREADABLE as error:
        remedy = "check the network and proxy settings (HTTPS_PROXY), or --index with another index"
        raise WorldFault("cannot read releases from the index", f"{url} ({error})", remedy) from error


def _page(url: str, name: str, sources: Sources) -> ProjectPage:
    """Read the page of a project; raise one of UNREADABLE for what is none."""
    answer = index_pages.request_answer(url, sources)
    if answer is None:
        raise ValueError("no such project")
    if answer.content_type.partition(";")[0].endswith("json"):
        return ProjectPage.from_json_data(json.loads(answer.body), answer.base)
    return ProjectPage.from_html(name, answer.body, answer.base)


def _file(listed: DistributionPackage) -> File:
    reason = (listed.yanked_reason or "").strip() or "no reason given"
    return File(listed.filename, _day(listed.upload_time), reason if listed.is_yanked else None)


def _day(time: datetime.datetime | None) -> datetime.date:
    if time is None:
        raise ValueError("the index does not say when its files were uploaded")
    return time.date()


def _final(files: Iterable[tuple[str, File]]) -> Releases:
    by_version: dict[Version, list[File]] = {}
    for text, file in files:
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        if not version.is_prerelease:
            by_version.setdefault(version, []).append(file)
    return by_version


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
    final = []
    for version, files in index[name].items():
        standing = [file for file in files if LINUX.search(file.name) and not file.yanked]
        if standing and day(standing) <= on:
            final.append(version)
    if not final:
        remedy = "--index with an index that has older releases, too"
        raise WorldFault("the index has no Linux wheel of that day or before", f"{name}, {on}", remedy)
    return max(final)


def pythons(files: Iterable[File]) -> list[str]:
    """Return the Pythons with a Linux wheel: 3.9, 3.10."""
    minors = {match[1] for file in files if (match := LINUX.search(file.name)) and match[1]}
    return [f"3.{minor}" for minor in sorted(map(int, minors))]
