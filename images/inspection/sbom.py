"""The software bill of materials of an image: a CycloneDX document of everything that went into it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from images.base import replaced
from images.base.base import Base, Facts
from images.debs.apt import Deb
from images.host.store import Store
from images.lock import lockfile
from images.lock.collect import Wheel
from images.lock.lock import Lock

NUMBERS = {"bullseye": "11", "bookworm": "12", "trixie": "13"}  # Debian's suites: https://www.debian.org/releases/


def write(locked: Lock, found: Sequence[Wheel], base: Base, store: Store) -> str:
    """Return the document of an image as JSON, from the store where it is there; equal locks give equal bytes."""
    return str(store.cached("sboms", lockfile.text(locked), lambda: _make(locked, found, base, store)).value)


def _make(locked: Lock, found: Sequence[Wheel], base: Base, store: Store) -> str:
    from images.inspection import components  # a tenth of a second that most builds do not need

    hashes = {deb.package: deb.sha256 for deb in locked.debian.debs}
    listed = components.of_wheels(found, store)
    if base.manifest is None:
        listed += components.of_debian(base.facts.status, _distro(base.facts), hashes)
    else:
        listed += components.of_debian(
            "\n".join(map(_paragraph, locked.debian.debs)), _debian(locked.debian.suite), hashes
        )
        listed += components.of_debian(base.facts.status, _distro(base.facts))
        listed += components.of_installed(_kept(base.facts, locked))
    listed.append(components.program("multinode", None, "Apache-2.0"))
    release = str(locked.transformers)
    if locked.examples:
        listed.append(components.archive("transformers-examples", release, locked.examples.sha256))
    created = datetime.datetime.combine(locked.family_as_of, datetime.time())
    name = f"torch{locked.torch}-transformers{release}"
    return components.document("multinode", name, created, listed)


def _paragraph(deb: Deb) -> str:
    return f"Package: {deb.package}\nVersion: {deb.version}\nArchitecture: {deb.architecture}\n"


def _debian(suite: str) -> str:
    """Name a suite as `_distro` names the base that is made of it; one without a number yet goes by its own name."""
    return f"debian-{NUMBERS.get(suite, suite)}"


def _distro(facts: Facts) -> str:
    """Name a distribution as package URLs do (purl-spec, "deb")."""
    return f"{facts.release.get('ID', 'debian')}-{facts.release.get('VERSION_ID', '')}".rstrip("-")


def _kept(facts: Facts, locked: Lock) -> list[tuple[str, str]]:
    """List the Python packages of the base that are still found in the image, as (project, version)."""
    added = {str(canonicalize_name(artifact.name)) for artifact in locked.added}
    hidden = replaced.shadowing(facts, [(artifact.name, artifact.version) for artifact in locked.artifacts])
    infos, sites = {old.info for old in hidden}, (*facts.ahead, *facts.sites[locked.python])
    found = (d for d in facts.distributions if d.directory in sites and d.info not in infos)
    return sorted({(d.name, d.version) for d in found if d.name not in added})
