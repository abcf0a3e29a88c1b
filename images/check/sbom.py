"""The software bill of materials of an image: a CycloneDX document of everything that went into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.utils import canonicalize_name

from images.base.base import Base, Facts
from images.debian.control import parse_paragraphs
from images.debian.deb import Deb
from images.dpkg.suites import SUITES
from images.lock import lockfile
from images.lock.lock import Lock
from images.plan.user_files import WORKSPACE
from images.store.store import Store
from images.wheels.archive import Wheel
from images.wheels.content import read_content

Controls = Mapping[Deb, str]  # what Debian packages say of themselves (deb-control(5))
Packages = tuple[Sequence[Mapping[str, str]], str, Mapping[str, str]]  # fields, distribution, sha256 by name


def write_sbom(locked: Lock, wheels: Sequence[Wheel], base: Base, store: Store, controls: Controls) -> str:
    """Return the document of an image as JSON, from the store where it is there; equal contents give equal bytes.

    `controls` are those of the packages that were added to a base of others.
    Raises WorldFault when a file cannot be read as a wheel.
    """
    installed = _list_kept(base.facts, locked) if base.is_pulled else []
    examples = [("transformers-examples", str(locked.transformers), locked.examples.sha256)] if locked.examples else []
    files = [(f"/{WORKSPACE}/{row.path}", row.sha256) for row in locked.user_files or () if row.sha256]
    name = f"torch{locked.torch}-transformers{locked.transformers}"

    def make() -> str:
        from images.check import components  # a tenth of a second that most builds do not need

        parts = [
            components.operating_system(*_running(base.facts)),
            *(components.of_wheel(wheel, read_content(store, wheel.sha256, wheel.path).metadata) for wheel in wheels),
            *(part for packages in _systems(locked, base, controls) for part in components.of_debian(*packages)),
            *(components.of_installed(*row) for row in installed),
            components.program("multinode", None, "Apache-2.0"),
            *(components.archive(*row) for row in examples),
            *(components.single_file(*row) for row in files),
        ]
        return components.document("multinode", name, locked.family_as_of, parts)

    inputs = [lockfile.format_lock(locked), not base.is_pulled, base.facts.status, base.facts.release, installed]
    return str(store.cached("sboms", inputs, make).value)


def _systems(locked: Lock, base: Base, controls: Controls) -> list[Packages]:
    """Return the Debian packages of an image: those of its base, and those that were added to somebody else's."""
    hashes = {deb.package: deb.sha256 for deb in locked.debian.debs}
    installed = [*parse_paragraphs(base.facts.status)]
    if not base.is_pulled:
        return [(installed, _distro(base.facts), hashes)]
    added = [_fields(deb, controls[deb]) for deb in locked.debian.debs]
    return [(added, name_suite(locked.debian.suite), hashes), (installed, _distro(base.facts), {})]


def _fields(deb: Deb, control: str) -> dict[str, str]:
    """Return a package as dpkg's status file has it: the names of the lock, and who made it of which source."""
    fields = next(parse_paragraphs(control), {})
    told = {name: " ".join(text.split()) for name, text in fields.items() if name in ("source", "maintainer")}
    return {"package": deb.package, "version": deb.version, "architecture": deb.architecture, **told}


def name_suite(suite: str) -> str:
    """Return the name of a suite as `_distro` writes it: its number, or its codename while it has none."""
    known = SUITES.get(suite)
    return f"debian-{known.number if known else suite}"


def _running(facts: Facts) -> tuple[str, str | None]:
    """Name the operating system of a base; a suite that is no release yet has no number."""
    return facts.release.get("ID", "debian"), facts.release.get("VERSION_ID") or None


def _distro(facts: Facts) -> str:
    """Name a distribution as package URLs do (purl-spec, "deb")."""
    return "-".join(filter(None, _running(facts)))


def _list_kept(facts: Facts, locked: Lock) -> list[tuple[str, str]]:
    """List the Python packages of the base that the image still has, as (project, version)."""
    added = {str(canonicalize_name(artifact.name)) for artifact in locked.added}
    installed = (d for d in facts.distributions if d.directory in facts.sites[locked.python])
    return sorted({(d.name, d.version) for d in installed if d.name not in added})
