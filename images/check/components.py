"""Wheels, Debian packages and single files as CycloneDX 1.6 components: equal images have equal documents."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Iterable, Mapping

from cyclonedx.contrib.license.exceptions import InvalidSpdxLicenseException
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.metadata import RawMetadata

from images.debian import control
from images.wheels.archive import Wheel

NAMESPACE = uuid.UUID("6d0cbb1e-3a0b-5c5e-9f4b-6f5e6d756c74")  # of serial numbers; arbitrary, never to be changed
SERIAL = '"serialNumber": "urn:uuid:{}"'

# An address as RFC 3986 has it, without user and IPv6 host: the document's schema refuses anything looser.
CHARACTERS = r"(?:[\w.~!$&()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
ADDRESS = re.compile(rf"https?://[\w.-]+(?::\d+)?(?:/{CHARACTERS})?(?:\?{CHARACTERS})?(?:#{CHARACTERS})?", re.ASCII)

SHORT = 80  # the License field of a wheel holds a name or a whole text; no name is longer
LONGEST = 1000  # characters of an expression, which is parsed in time by the square of its brackets
# What people and tools write where they state no licence, or where they point at a file.
NO_NAME = re.compile(r"(unknown|none|n/?a|see\b.*|file:.*|(the )?licen[cs]e(\.\w+)?|copying)?", re.IGNORECASE)
CLASSIFIER = "License :: "

# deb-control(5), deb-version(7)
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
VERSION = re.compile(r"[A-Za-z0-9.+~:-]+")
ARCHITECTURE = re.compile(r"[a-z0-9-]+")
PARTS = re.compile(r"(?:([0-9]{1,9}):)?(.+?)(?:-([^-]*))?")  # deb-version(7): epoch, upstream version, revision


def operating_system(name: str, version: str | None) -> Component:
    """Return the component by which scanners know whose advisories to read.

    It has the ID and VERSION_ID of os-release(5). Trivy takes the distribution from the first of this type and scans no
    Debian package without (aquasecurity/trivy, pkg/sbom/io/decode.go, decodeComponents); Syft and Grype take it from
    there, too (anchore/syft, syft/format/internal/cyclonedxutil/helpers/decoder.go, linuxReleaseFromOSComponent).
    """
    return Component(name=name, version=version, type=ComponentType.OPERATING_SYSTEM, bom_ref="operating-system")


def of_wheel(wheel: Wheel, metadata: RawMetadata) -> Component:
    """Return the component of a wheel that says this of itself; name and version are the lock's."""
    component = _component(PackageURL("pypi", None, wheel.project, wheel.version), ComponentType.LIBRARY, wheel.sha256)
    component.description = _shorten(metadata.get("summary", ""))
    component.licenses = licences(metadata)
    component.external_references = [
        ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(url)) for url in _homepage(metadata)
    ]
    return component


def of_installed(name: str, version: str) -> Component:
    """Return the component of a Python package that a base image has."""
    return _component(PackageURL("pypi", None, name, version), ComponentType.LIBRARY, None)


def of_debian(
    packages: Iterable[Mapping[str, str]], distro: str, hashes: Mapping[str, str] | None = None
) -> list[Component]:
    """Return a component for each package that is installed, given by its fields in dpkg's status file.

    `distro` is the purl qualifier, such as debian-12; `hashes` maps packages to the sha256 of their .deb and may lack
    some.
    """
    installed = filter(_installed, packages)
    return [_debian(fields, distro, (hashes or {}).get(fields["package"])) for fields in installed]


def archive(name: str, version: str | None, sha256: str) -> Component:
    """Return the component of an archive that is unpacked into the image, such as the examples."""
    purl = PackageURL("generic", None, name, version, {"checksum": f"sha256:{sha256}"})
    return _component(purl, ComponentType.FILE, sha256)


def single_file(path: str, sha256: str) -> Component:
    """Return the component of a single file of an image, by its path."""
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)]
    return Component(name=path, type=ComponentType.FILE, bom_ref=f"file:{path}", hashes=hashes)


def program(name: str, version: str | None, licence: str) -> Component:
    """Return the component of a program that comes from no package, such as the entrypoint."""
    component = _component(PackageURL("generic", None, name, version), ComponentType.APPLICATION, None)
    component.licenses = _stated(licence)
    return component


def document(name: str, version: str, day: datetime.date, components: Iterable[Component]) -> str:
    """Return the document of an image called `name:version`, made on a day, as JSON.

    The serial number follows from everything else in the document.
    """
    # By the reference alone where that tells them apart: a component takes a hundred times longer to compare.
    ordered = sorted(components, key=lambda component: (str(component.bom_ref), component))
    unique = {str(component.bom_ref): component for component in ordered}
    image = Component(name=name, version=version, type=ComponentType.CONTAINER, bom_ref="image")
    created = datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.timezone.utc)
    bom = Bom(
        serial_number=uuid.UUID(int=0),
        metadata=BomMetaData(component=image, timestamp=created),
        components=unique.values(),
        dependencies=[Dependency(image.bom_ref, [Dependency(component.bom_ref) for component in unique.values()])],
    )
    text = JsonV1Dot6(bom).output_as_string(indent=1) + "\n"
    return text.replace(SERIAL.format(bom.serial_number), SERIAL.format(uuid.uuid5(NAMESPACE, text)))


def _component(purl: PackageURL, kind: ComponentType, sha256: str | None) -> Component:
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []
    return Component(name=purl.name, version=purl.version, type=kind, purl=purl, bom_ref=str(purl), hashes=hashes)


def _shorten(text: str) -> str | None:
    return " ".join(text.split()) or None


def licences(metadata: RawMetadata) -> list[License]:
    """Return the licences that a wheel states: License-Expression, else its classifiers, else a short License field.

    They are SPDX identifiers and expressions where they are such, else names; nothing is guessed.
    """
    if expression := metadata.get("license_expression", "").strip():
        return _stated(expression) if len(expression) <= LONGEST else []
    classified = [row.rpartition(" :: ")[2] for row in metadata.get("classifiers", []) if row.startswith(CLASSIFIER)]
    names = {" ".join(name.split()) for name in classified} - {"OSI Approved", ""}  # which alone name no licence
    if names:  # the format allows no expression among several licences
        return [*sorted({_known_licence(name) for name in names if not NO_NAME.fullmatch(name)})]
    text = metadata.get("license", "").strip()
    return _stated(text) if len(text) <= SHORT and "\n" not in text else []


def _stated(text: str) -> list[License]:
    """Return the licence of one statement: an SPDX identifier, an SPDX expression, or else a name."""
    if NO_NAME.fullmatch(text):
        return []
    licence = LicenseFactory().make_from_string(text)
    # A single word that is no identifier passes for an expression if it is somebody's alias, as `GPL` is.
    return [_known_licence(text)] if isinstance(licence, LicenseExpression) and " " not in text else [licence]


def _known_licence(name: str) -> DisjunctiveLicense:
    factory = LicenseFactory()
    try:
        return factory.make_with_id(name)
    except InvalidSpdxLicenseException:
        return factory.make_with_name(name)


def _homepage(metadata: RawMetadata) -> list[str]:
    """Return the address under either of its names; labels differ in case and punctuation only (PEP 753)."""
    labelled = {re.sub(r"[\W_]", "", label).lower(): url for label, url in metadata.get("project_urls", {}).items()}
    stated = (metadata.get("home_page", "").strip(), labelled.get("homepage", "").strip())
    return [url for url in stated if ADDRESS.fullmatch(url)][:1]


def _installed(fields: Mapping[str, str]) -> bool:
    """Tell a package that is there from one whose settings alone are left, and from text that is no package."""
    patterns = {"package": PACKAGE, "version": VERSION, "architecture": ARCHITECTURE}
    whole = all(pattern.fullmatch(fields.get(name, "")) for name, pattern in patterns.items())
    return whole and fields.get("status", "install ok installed").split()[-1:] == ["installed"]


def _debian(fields: Mapping[str, str], distro: str, sha256: str | None) -> Component:
    """Return the component of a package, with the source package that advisories name where it is another.

    Grype reads that in the package URL (anchore/grype, grype/pkg/purl_provider.go, upstreamsFromPURL).
    """
    name, version = fields["package"], fields["version"]
    source, source_version = control.source(fields)
    qualifiers = {"arch": fields["architecture"], "distro": distro}
    if (source, source_version) != (name, version):
        qualifiers["upstream"] = source if source_version == version else f"{source}@{source_version}"
    purl = PackageURL("deb", distro.partition("-")[0], name, version, qualifiers)
    component = _component(purl, ComponentType.LIBRARY, sha256)
    component.publisher = _shorten(fields.get("maintainer", ""))
    if "upstream" in qualifiers:
        component.properties = _for_trivy(source, source_version)
    return component


def _for_trivy(source: str, version: str) -> list[Property]:
    """Return a source package as Trivy writes and reads it, which knows no `upstream`.

    Its version is in three parts; what is empty, and an epoch of 0, is left out (aquasecurity/trivy,
    pkg/fanal/analyzer/pkg/dpkg/dpkg.go; pkg/sbom/io: encode.go, filterProperties, and decode.go,
    fillPkgFieldsFromComponentProps).
    """
    match = PARTS.fullmatch(version)
    epoch, upstream, release = match.groups() if match else (None, version, None)
    stated = {"SrcName": source, "SrcVersion": upstream, "SrcRelease": release, "SrcEpoch": (epoch or "").lstrip("0")}
    return [Property(name=f"aquasecurity:trivy:{key}", value=value) for key, value in stated.items() if value]
