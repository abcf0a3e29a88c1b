"""How an image was made, as an in-toto statement: its lock in the terms of SLSA, and nothing of this machine or day."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from packageurl import PackageURL

from images import content
from images.base.base import BaseImage
from images.check.sbom import name_suite
from images.content import option_key
from images.lock import lockfile
from images.lock.lock import Lock
from images.oci import reference
from images.oci.manifest import digest_of
from images.plan.user_files import WORKSPACE

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "urn:multinode:build:v1"  # what externalParameters and resolvedDependencies mean, as it stands below
BUILDER = "urn:multinode:build.py"  # on whatever machine; who ran it is said by a signature

# What was asked for, as the lock has it, so that the words of different requests do not make it differ.
ASKED = (*lockfile.ASKED, *(option_key(one.name) for one in content.FIELDS), "as-of", "family-as-of", "machine")


def write_statement(lock: Lock, digest: str) -> str:
    """Return the statement about an image of this lock, by the digest of its manifest, as JSON.

    It is not signed. Equal images have equal statements.
    """
    table = lockfile.lock_fields(lock)["tool"]["multinode"]
    definition = {
        "buildType": BUILD,
        "externalParameters": {name: _as_plain(table[name]) for name in ASKED if name in table} | _own(lock),
        "internalParameters": table["tools"],
        "resolvedDependencies": [*_dependencies(lock)],
    }
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": lock.tag, "digest": _digest(digest)}],
        "predicateType": PREDICATE,
        "predicate": {"buildDefinition": definition, "runDetails": {"builder": {"id": BUILDER}}},
    }
    return json.dumps(statement, indent=1, ensure_ascii=False) + "\n"


def _own(lock: Lock) -> dict[str, object]:
    parameters: dict[str, object] = {"user-packages": [*lock.user_packages.requirements]} if lock.user_packages else {}
    return parameters | ({"user-files": [row.path for row in lock.user_files]} if lock.user_files else {})


def _dependencies(lock: Lock) -> Iterator[dict[str, Any]]:
    """Yield the lock, and every file that goes in by it, with the address of its package (purl)."""
    yield _resource(lockfile.NAME, None, digest_of(lockfile.format_lock(lock).encode()))
    if lock.base_image:
        yield _describe_base(lock.base_image)
    for deb in lock.debian.debs:
        qualifiers = {"arch": deb.architecture, "distro": name_suite(lock.debian.suite)}
        yield _resource(deb.filename, PackageURL("deb", "debian", deb.package, deb.version, qualifiers), deb.sha256)
    for artifact in lock.added:
        yield _resource(artifact.filename, PackageURL("pypi", None, artifact.name, artifact.version), artifact.sha256)
    if lock.examples:
        purl = PackageURL("generic", None, "transformers-examples", lock.transformers)
        yield _resource(lock.examples.filename, purl, lock.examples.sha256)
    for row in lock.user_files or ():
        if row.sha256:
            yield _resource(f"{WORKSPACE}/{row.path}", None, row.sha256)


def _describe_base(image: BaseImage) -> dict[str, Any]:
    """Return a base of others; one from disk has no name."""
    digest, named = image.manifest.digest, reference.parse_reference(image.reference) if image.reference else None
    place = f"{named.host}/{named.name}" if isinstance(named, reference.Remote) else None
    qualifiers = {"repository_url": place} if place else {}
    purl = PackageURL("oci", None, (place or "base").rpartition("/")[2], digest, qualifiers)
    return _resource(image.reference or "base", purl, digest)


def _resource(name: str, purl: PackageURL | None, digest: str) -> dict[str, Any]:
    return {"name": name, **({"uri": str(purl)} if purl else {}), "digest": _digest(digest)}


def _digest(text: str) -> dict[str, str]:
    return {"sha256": text.removeprefix("sha256:")}


def _as_plain(value: object) -> object:
    return value if isinstance(value, bool | list) else str(value)
