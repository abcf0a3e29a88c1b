"""The bill of materials of an image, from what went into it; kept, because the base's texts take a second to read."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from images.base import debian
from images.base.apt import Deb
from images.base.debian import Debian
from images.base.inspect import Facts
from images.base.pulled import Foreign
from images.host.store import Store
from images.lock import lockfile
from images.lock.collect import Wheel
from images.lock.lockfile import Locked

STATUS = "var/lib/dpkg/status"
COPYRIGHT = "usr/share/doc/*/copyright"


def write(locked: Locked, found: Sequence[Wheel], origin: Debian | Foreign, store: Store) -> str:
    """Write the CycloneDX document for everything in an image; equal locks give equal bytes."""
    return str(store.cached("sboms", lockfile.text(locked), lambda: _make(locked, found, origin, store)).value)


def _paragraph(deb: Deb) -> str:
    return f"Package: {deb.package}\nVersion: {deb.version}\nArchitecture: {deb.architecture}\n"


def _distro(facts: Facts) -> str:
    """Name a distribution as package URLs do (purl-spec, "deb")."""
    return f"{facts.release.get('ID', 'debian')}-{facts.release.get('VERSION_ID', '')}".rstrip("-")


def _staying(facts: Facts, locked: Locked) -> list[tuple[str, str]]:
    """List the Python packages of the base that are still found in the image, as (project, version)."""
    added = {str(canonicalize_name(artifact.name)) for artifact in locked.added}
    sites = facts.sites[locked.plan.python]
    return sorted({(d.name, d.version) for d in facts.distributions if d.folder in sites and d.name not in added})


def _make(locked: Locked, found: Sequence[Wheel], origin: Debian | Foreign, store: Store) -> str:
    from images.inspection import sbom  # a tenth of a second that most builds do not need

    hashes = {deb.package: deb.sha256 for deb in locked.debs}
    items = [*sbom.python_components(found, locked.plan.python)]
    if isinstance(origin, Debian):
        texts = debian.texts(store, origin, [STATUS, COPYRIGHT])
        status = texts.pop(STATUS, "")
        copyrights = {path.split("/")[3]: text for path, text in texts.items()}
        items += sbom.debian_components(status, copyrights, hashes)
    else:
        items += sbom.debian_components("\n".join(map(_paragraph, locked.debs)), {}, hashes)
        items += sbom.debian_components(origin.facts.status, origin.facts.copyrights, distro=_distro(origin.facts))
        items += sbom.installed(_staying(origin.facts, locked))
    items.append(sbom.program("multinode", None, "Apache-2.0"))
    release = str(locked.plan.transformers.version)
    if locked.examples:
        items.append(sbom.archive("transformers-examples", release, locked.examples.sha256))
    created = datetime.datetime.combine(locked.plan.family_as_of, datetime.time())
    name = f"torch{locked.plan.torch.version}-transformers{release}"
    return sbom.write("multinode", name, created, items).decode()
