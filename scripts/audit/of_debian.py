"""Vulnerabilities of the Debian packages of a lock, as Debian's security tracker has them.

The tracker says of each source package and each suite whether a vulnerability is open or resolved, by which version,
and how urgent it is; most have no urgency.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from images.context import Context
from images.debian import control, packages
from images.host.errors import Fault, WorldFault
from images.lock.lock import Lock
from images.store import download
from images.store.store import Store
from scripts.audit.findings import Finding

TRACKER = "https://security-tracker.debian.org/tracker/data/json"
AGAIN = "check the network and the proxy (HTTPS_PROXY), or name a mirror: --tracker URL"

# Urgencies that end the audit, and those that do not. One that has none ends it where the suite has a fix, since Debian
# found it worth an update, and a new lock takes that; while it is open, nobody can mend it yet.
SEVERE = ("high", "end-of-life")  # the latter of the package in this suite: nobody is going to mend it
LESS = ("medium", "low", "unimportant")


class Release(BaseModel):
    """What the tracker says of a vulnerability in a suite; fixed in 0: it was never in it."""

    status: str
    urgency: str = ""
    fixed_version: str = ""


class Issue(BaseModel):
    """A vulnerability of a source package, suite by suite."""

    releases: dict[str, Release]


ISSUES = TypeAdapter(dict[str, Issue])
Sources = set[tuple[str, str]]


def list_sources(lock: Lock, context: Context) -> Sources:
    """Return name and version of the sources of a lock's packages, which are downloaded where they are not here.

    Raises WorldFault for a package that cannot be had any more.
    """
    debs, store = lock.debian.debs, context.store
    if lost := packages.list_missing_debs(store, debs):
        packages.download_packages(lock.debian.suite, lost, lock.platform, context)
    said = [next(control.parse_paragraphs(packages.read_control(store, deb)), {}) for deb in debs]
    named = [{"package": deb.package, "version": deb.version} for deb in debs]
    return {control.source({**fields, **stated}) for fields, stated in zip(said, named, strict=True)}


def read_tracker(url: str, context: Context) -> dict[str, Any]:
    """Download what the tracker knows; of its 80 MB nothing is kept.

    Raises WorldFault where it cannot be had.
    """
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory) / "store")
        try:
            digest = download.download_file(store, url, None, "tracker.json", context.sources, context.progress.advance)
            return dict(json.loads(store.place(digest, "tracker.json").read_bytes()))
        except (Fault, ValueError, TypeError, RecursionError) as error:
            why = error.value if isinstance(error, Fault) else f"{url}: {error}"
            raise WorldFault("cannot read Debian's security tracker", why, AGAIN) from error


def find_in_debian(known: Mapping[str, Any], suite: str, used: Sources) -> list[Finding]:
    """Return what counts of the vulnerabilities of some sources in a suite.

    Raises WorldFault where nothing is known of the suite, or what is known cannot be read.
    """
    try:
        if not any(suite in issue["releases"] for issues in known.values() for issue in issues.values()):
            remedy = "a suite that Debian still follows: python build.py list; or --tracker with one that knows it"
            raise WorldFault("Debian's security tracker knows nothing of this suite", suite, remedy)
        return [finding for source in sorted(used) for finding in _of_source(known, suite, *source)]
    except (ValidationError, AttributeError, KeyError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise WorldFault("Debian's security tracker has another form than this release reads", reason, AGAIN) from error


def _of_source(known: Mapping[str, Any], suite: str, source: str, version: str) -> Iterator[Finding]:
    issues = ISSUES.validate_python(known.get(source, {}))
    for name, issue in sorted(issues.items()):
        if (release := issue.releases.get(suite)) is None:
            continue
        urgency, fixed = release.urgency.rstrip("*"), release.fixed_version
        if release.status == "open" and urgency in SEVERE:
            yield Finding(source, version, (name,), None)
        counts = release.status == "resolved" and fixed and urgency not in LESS
        if counts and control.version_key(version) < control.version_key(fixed):
            yield Finding(source, version, (name,), fixed)
