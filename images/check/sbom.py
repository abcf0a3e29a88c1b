"""The software bill of materials of an image: a CycloneDX document of everything that went into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from packaging.metadata import RawMetadata
from packaging.utils import canonicalize_name

from images.debian.control import paragraphs
from images.host.store import Store
from images.model import Base, Deb, Facts, Lock, Wheel
from images.wheels.content import content

Control = Callable[[Deb], str]

NUMBERS = {"bullseye": "11", "bookworm": "12", "trixie": "13"}  # Debian's suites: https://www.debian.org/releases/


@dataclass(frozen=True)
class Listed:
    """What goes into the document of an image, as plain values.

    `running` is the operating system of the base (ID, VERSION_ID), and `wheels` are (project, version, sha256, what
    METADATA says); `systems` (text as dpkg's status file, qualifier of the distribution, sha256 of packages);
    `installed` (project, version) of the base; `examples` (version, sha256) or none.
    """

    version: str
    created: str
    running: tuple[str, str | None]
    wheels: Sequence[tuple[str, str, str, RawMetadata]]
    systems: Sequence[tuple[str, str, Mapping[str, str]]]
    installed: Sequence[tuple[str, str]]
    examples: tuple[str, str] | None


def write(locked: Lock, found: Sequence[Wheel], base: Base, store: Store, control: Control) -> str:
    """Return the document of an image as JSON, from the store where it is there; equal contents give equal bytes.

    `control` returns what a Debian package says of itself (deb-control(5)).
    Raises WorldFault when a file cannot be read as a wheel.
    """
    contents = asdict(listed(locked, found, base, store, control))

    def make() -> str:
        from images.check import components  # a tenth of a second that most builds do not need

        return components.render(contents)

    return str(store.cached("sboms", contents, make).value)


def listed(locked: Lock, found: Sequence[Wheel], base: Base, store: Store, control: Control) -> Listed:
    """Return what an image is made of."""
    release = str(locked.transformers)
    hashes = {deb.package: deb.sha256 for deb in locked.debian.debs}
    systems, installed = [(base.facts.status, _distro(base.facts), hashes)], list[tuple[str, str]]()
    if base.manifest is not None:
        added = "\n".join(_paragraph(deb, control(deb)) for deb in locked.debian.debs)
        systems = [(added, _debian(locked.debian.suite), hashes), (base.facts.status, _distro(base.facts), {})]
        installed = _kept(base.facts, locked)
    return Listed(
        f"torch{locked.torch}-transformers{release}", locked.family_as_of.isoformat(), _running(base.facts),
        described(found, store), systems, installed, (release, locked.examples.sha256) if locked.examples else None,
    )  # fmt: skip


def described(wheels: Iterable[Wheel], store: Store) -> list[tuple[str, str, str, RawMetadata]]:
    """Return the wheels as `Listed` has them; a wheel is opened once, and the store keeps what was read.

    Name, version and hash are those of the lock; what METADATA says beyond that is taken where it can be read.
    Raises WorldFault when a file cannot be read as a wheel.
    """
    return [
        (wheel.project, wheel.version, wheel.sha256, content(store, wheel.sha256, wheel.path).metadata)
        for wheel in wheels
    ]


def _paragraph(deb: Deb, control: str) -> str:
    """Return a package as dpkg's status file has it: the names of the lock, and who made it of which source."""
    known = {"Package": deb.package, "Version": deb.version, "Architecture": deb.architecture}
    said = next(paragraphs(control), {})
    told = {name: " ".join(said[name.lower()].split()) for name in ("Source", "Maintainer") if name.lower() in said}
    return "".join(f"{name}: {value}\n" for name, value in {**known, **told}.items())


def _debian(suite: str) -> str:
    """Name a suite as `_distro` names the base that is made of it; one without a number yet goes by its own name."""
    return f"debian-{NUMBERS.get(suite, suite)}"


def _running(facts: Facts) -> tuple[str, str | None]:
    """Name the operating system of a base; a suite that is no release yet has no number."""
    return facts.release.get("ID", "debian"), facts.release.get("VERSION_ID") or None


def _distro(facts: Facts) -> str:
    """Name a distribution as package URLs do (purl-spec, "deb")."""
    return "-".join(filter(None, _running(facts)))


def _kept(facts: Facts, locked: Lock) -> list[tuple[str, str]]:
    """List the Python packages of the base that are still found in the image, as (project, version)."""
    added = {str(canonicalize_name(artifact.name)) for artifact in locked.added}
    found = (d for d in facts.distributions if d.directory in facts.sites[locked.python])
    return sorted({(d.name, d.version) for d in found if d.name not in added})
