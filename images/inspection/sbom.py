"""Everything in an image as a CycloneDX 1.6 document; equal images have equal documents, to the byte."""

from __future__ import annotations

import datetime
import re
import uuid
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.metadata import RawMetadata, parse_email

from images.base import control
from images.host.errors import WorldFault
from images.inspection import licences, requirements

if TYPE_CHECKING:
    from images.lock.collect import Wheel  # for its name only: the builder of layers may want this module

DISTRO = "debian-12"
NAMESPACE = uuid.UUID("6d0cbb1e-3a0b-5c5e-9f4b-6f5e6d756c74")  # of our serial numbers; arbitrary, never to be changed

METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
# An address as RFC 3986 has it, without user and IPv6 host: the document's schema refuses anything looser.
CHARACTERS = r"(?:[\w.~!$&()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
ADDRESS = re.compile(rf"https?://[\w.-]+(?::\d+)?(?:/{CHARACTERS})?(?:\?{CHARACTERS})?(?:#{CHARACTERS})?", re.ASCII)

# deb-control(5), deb-version(7)
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
VERSION = re.compile(r"[A-Za-z0-9.+~:-]+")
ARCHITECTURE = re.compile(r"[a-z0-9-]+")


@dataclass(frozen=True)
class Item:
    """One thing in the image, and the package URLs of what it needs."""

    component: Component
    needs: tuple[str, ...] = ()


def python_components(wheels: Iterable[Wheel], python: str) -> list[Item]:
    """Describe the wheels of an image for the base's Python, such as `3.11`.

    Name, version and hash are those of the lock; what METADATA says beyond that is taken where it can be read.
    Raises WorldFault when a file cannot be read as a wheel.
    """
    read = [(wheel, _metadata(wheel.path)) for wheel in wheels]
    purls = {wheel.project: str(_pypi(wheel)) for wheel, _ in read}
    needs = requirements.graph({w.project: m.get("requires_dist", []) for w, m in read}, python)
    return [Item(_python(w, m), tuple(sorted(purls[target] for target in needs[w.project]))) for w, m in read]


def debian_components(
    status: str, copyrights: Mapping[str, str], hashes: Mapping[str, str] | None = None, distro: str = DISTRO
) -> list[Item]:
    """Describe the packages that dpkg's status file has as installed.

    `copyrights` maps a package to its debian/copyright, `hashes` to the sha256 of its .deb; either may lack packages.
    """
    installed = [fields for fields in control.paragraphs(status) if _installed(fields)]
    purls = [_deb(fields, distro) for fields in installed]
    called: dict[str, set[str]] = defaultdict(set)
    virtual: dict[str, set[str]] = defaultdict(set)
    for fields, purl in zip(installed, purls, strict=True):
        called[fields["package"]].add(str(purl))
        for name in _named(fields.get("provides", "")):
            virtual[name].add(str(purl))
    known = {**virtual, **called}
    return [
        Item(_debian(fields, purl, copyrights, hashes or {}), _depended(fields, purl, known))
        for fields, purl in zip(installed, purls, strict=True)
    ]


def installed(packages: Iterable[tuple[str, str]]) -> list[Item]:
    """Describe Python packages that somebody else installed, given as (project, version)."""
    purls = [PackageURL("pypi", None, name, version) for name, version in packages]
    return [Item(_component(purl, ComponentType.LIBRARY, None)) for purl in purls]


def archive(name: str, version: str | None, sha256: str) -> Item:
    """Describe an archive that is unpacked into the image, such as the examples."""
    purl = PackageURL("generic", None, name, version, {"checksum": f"sha256:{sha256}"})
    return Item(_component(purl, ComponentType.FILE, sha256))


def program(name: str, version: str | None, licence: str) -> Item:
    """Describe a program that is part of the image and comes from no package, such as the entrypoint."""
    component = _component(PackageURL("generic", None, name, version), ComponentType.APPLICATION, None)
    component.licenses = licences.stated(licence)
    return Item(component)


def write(name: str, version: str, created: datetime.datetime, items: Iterable[Item]) -> bytes:
    """Write the document of an image called `name:version`.

    A `created` without a zone is UTC. The serial number follows from everything else in the document.
    """
    ordered = sorted(items, key=lambda item: (item.component, item.needs))
    unique = {str(item.component.bom_ref): item for item in ordered}
    image = Component(name=name, version=version, type=ComponentType.CONTAINER, bom_ref="image")
    zoned = created if created.tzinfo else created.replace(tzinfo=datetime.timezone.utc)
    bom = Bom(
        serial_number=uuid.UUID(int=0),
        metadata=BomMetaData(component=image, timestamp=zoned.astimezone(datetime.timezone.utc)),
        components=[item.component for item in unique.values()],
        dependencies=[_edges(image, unique, unique), *(_edges(i.component, i.needs, unique) for i in unique.values())],
    )
    bom.serial_number = uuid.uuid5(NAMESPACE, _text(bom))
    return _text(bom).encode()


def _text(bom: Bom) -> str:
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _edges(source: Component, targets: Iterable[str], known: Mapping[str, Item]) -> Dependency:
    found = [known[target].component for target in targets if target in known]
    return Dependency(source.bom_ref, [Dependency(component.bom_ref) for component in found])


def _component(purl: PackageURL, kind: ComponentType, sha256: str | None) -> Component:
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []
    return Component(name=purl.name, version=purl.version, type=kind, purl=purl, bom_ref=str(purl), hashes=hashes)


def _line(text: str) -> str | None:
    return " ".join(text.split()) or None


def _metadata(wheel: Path) -> RawMetadata:
    try:
        with zipfile.ZipFile(wheel) as file:
            found = sorted(name for name in file.namelist() if METADATA.fullmatch(name))
            return parse_email(file.read(found[0]) if found else b"")[0]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        remedy = "build again: a file that is damaged or missing in the store is fetched anew"
        raise WorldFault("cannot read a wheel", f"{wheel.name} ({error})", remedy) from error


def _pypi(wheel: Wheel) -> PackageURL:
    return PackageURL("pypi", None, wheel.project, wheel.version)


def _python(wheel: Wheel, metadata: RawMetadata) -> Component:
    component = _component(_pypi(wheel), ComponentType.LIBRARY, wheel.sha256)
    component.description = _line(metadata.get("summary", ""))
    component.licenses = licences.of_wheel(metadata)
    component.external_references = [
        ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(url)) for url in _homepage(metadata)
    ]
    return component


def _homepage(metadata: RawMetadata) -> list[str]:
    """Find the address under either of its names; labels differ in case and punctuation only (PEP 753)."""
    labelled = {re.sub(r"[\W_]", "", label).lower(): url for label, url in metadata.get("project_urls", {}).items()}
    stated = (metadata.get("home_page", "").strip(), labelled.get("homepage", "").strip())
    return [url for url in stated if ADDRESS.fullmatch(url)][:1]


def _installed(fields: Mapping[str, str]) -> bool:
    """Tell a package that is there from one whose settings alone are left, and from text that is no package."""
    patterns = {"package": PACKAGE, "version": VERSION, "architecture": ARCHITECTURE}
    whole = all(pattern.fullmatch(fields.get(name, "")) for name, pattern in patterns.items())
    return whole and fields.get("status", "install ok installed").split()[-1:] == ["installed"]


def _deb(fields: Mapping[str, str], distro: str) -> PackageURL:
    qualifiers = {"arch": fields["architecture"], "distro": distro}
    return PackageURL("deb", distro.partition("-")[0], fields["package"], fields["version"], qualifiers)


def _debian(
    fields: Mapping[str, str], purl: PackageURL, copyrights: Mapping[str, str], hashes: Mapping[str, str]
) -> Component:
    name = fields["package"]
    component = _component(purl, ComponentType.LIBRARY, hashes.get(name))
    component.publisher = _line(fields.get("maintainer", ""))
    component.licenses = licences.of_debian(copyrights.get(name, ""))
    source, _, version = fields.get("source", name).partition(" ")
    stated = {"source": source, "source-version": version.strip("() ") or fields["version"]}
    component.properties = [Property(name=f"multinode:debian:{key}", value=value) for key, value in stated.items()]
    return component


def _depended(fields: Mapping[str, str], purl: PackageURL, known: Mapping[str, set[str]]) -> tuple[str, ...]:
    wanted = _named(",".join(fields.get(name, "") for name in ("depends", "pre-depends")))
    return tuple(sorted({target for name in wanted for target in known.get(name, ())} - {str(purl)}))


def _named(relation: str) -> list[str]:
    """Take the names out of `libc6 (>= 2.34), mawk | awk:any`, every alternative of each."""
    matches = (PACKAGE.match(term.strip()) for term in re.split(r"[,|]", relation))
    return [match[0] for match in matches if match]
