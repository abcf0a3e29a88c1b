"""Components from wheels, dpkg's status and single files, and the CycloneDX document of them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.model.component import Component
from cyclonedx.model.license import License, LicenseExpression
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packageurl import PackageURL
from packaging.metadata import parse_email

from images.check import components
from images.check.components import licences
from images.debian.control import parse_paragraphs
from images.wheels.archive import Wheel

VALIDATOR = JsonStrictValidator(SchemaVersion.V1_6)
DAY = datetime.date(2026, 7, 8)


def wheel(project: str, version: str, metadata: str | bytes) -> Component:
    """Return the component of a wheel whose METADATA says this."""
    return components.of_wheel(Wheel(project, version, f"{len(project):064x}", Path()), parse_email(metadata)[0])


def document(listed: list[Component], day: datetime.date = DAY) -> str:
    return components.document("multinode", "torch2.13.0-transformers5.23.0", day, listed)


def read(listed: list[Component]) -> dict[str, Any]:
    """Write a document, and check it against the schema on the way."""
    text = document(listed)
    assert VALIDATOR.validate_str(text) is None
    parsed: dict[str, Any] = json.loads(text)
    return parsed


TORCH = """Metadata-Version: 2.4
Name: torch
Version: 2.13.0+cpu
Summary: Tensors and
        dynamic networks
Home-page: https://pytorch.org
License-Expression: BSD-3-Clause
"""


def test_a_wheel_with_all_that_is_known_of_it() -> None:
    parsed = read([wheel("torch", "2.13.0+cpu", TORCH)])

    purl = "pkg:pypi/torch@2.13.0%2Bcpu"
    assert parsed["components"] == [
        {
            "bom-ref": purl,
            "description": "Tensors and dynamic networks",
            "externalReferences": [{"type": "website", "url": "https://pytorch.org"}],
            "hashes": [{"alg": "SHA-256", "content": f"{5:064x}"}],
            "licenses": [{"license": {"id": "BSD-3-Clause"}}],
            "name": "torch",
            "purl": purl,
            "type": "library",
            "version": "2.13.0+cpu",
        }
    ]


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        ("Home-page: https://a.org/b?c=d#e", "https://a.org/b?c=d#e"),
        ("Project-URL: home-page, https://a.org:8080/", "https://a.org:8080/"),
        ("Home-page: UNKNOWN\nProject-URL: Homepage, http://a.org", "http://a.org"),
        ("Project-URL: Source, https://a.org", None),
        ("Home-page: file:///home/me", None),
        ("Home-page: https://a.org/ or https://b.org", None),
        ("Home-page: https://a.org/%zz", None),
        ("Home-page: https://a.org/#b#c", None),
        ("Home-page: https://[::1]/", None),
    ],
)
def test_only_an_address_becomes_the_homepage_of_a_package(lines: str, address: str | None) -> None:
    (part,) = read([wheel("a", "1", f"Metadata-Version: 2.1\n{lines}\n")])["components"]

    stated = [row["url"] for row in part.get("externalReferences", [])]
    assert stated == ([address] if address else [])


STATUS = """Package: libc6
Status: install ok installed
Maintainer: GNU Libc Maintainers <glibc@example.org>
Architecture: amd64
Source: glibc (2.36-9)
Version: 2.36-9+b1

Package: mawk
Status: install ok installed
Architecture: amd64
Version: 1:1.3.4

Package: python3
Status: install ok installed
Architecture: all
Version: 3.11.2-1

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
LIBC = "pkg:deb/debian/libc6@2.36-9%2Bb1?arch=amd64&distro=debian-12&upstream=glibc%402.36-9"


def test_a_debian_package_with_all_that_is_known_of_it() -> None:
    parsed = read(components.of_debian(parse_paragraphs(STATUS), "debian-12", {"libc6": "b" * 64}))

    libc, mawk, _ = parsed["components"]
    assert libc == {
        "bom-ref": LIBC,
        "hashes": [{"alg": "SHA-256", "content": "b" * 64}],
        "name": "libc6",
        "properties": [
            {"name": "aquasecurity:trivy:SrcName", "value": "glibc"},
            {"name": "aquasecurity:trivy:SrcRelease", "value": "9"},
            {"name": "aquasecurity:trivy:SrcVersion", "value": "2.36"},
        ],
        "publisher": "GNU Libc Maintainers <glibc@example.org>",
        "purl": LIBC,
        "type": "library",
        "version": "2.36-9+b1",
    }
    assert not {"hashes", "publisher", "properties"} & mawk.keys()
    assert "upstream" not in mawk["purl"]


@pytest.mark.parametrize(
    ("source", "upstream", "properties"),
    [
        ("shadow", "shadow", {"SrcName": "shadow", "SrcVersion": "4.13", "SrcRelease": "1", "SrcEpoch": "1"}),
        ("aa (2:1-2-3)", "aa@2:1-2-3", {"SrcName": "aa", "SrcVersion": "1-2", "SrcRelease": "3", "SrcEpoch": "2"}),
        ("passwd (4.13)", "passwd@4.13", {"SrcName": "passwd", "SrcVersion": "4.13"}),
        ("aa (0:4)", "aa@0:4", {"SrcName": "aa", "SrcVersion": "4"}),
        ("passwd", None, {}),
        ("passwd (1:4.13-1)", None, {}),
        ("Not A Name (1)", None, {}),
        ("aa (1 2)", None, {}),
    ],
)
def test_the_source_of_a_package_is_said_to_each_scanner_in_its_way(
    source: str, upstream: str | None, properties: dict[str, str]
) -> None:
    status = f"Package: passwd\nArchitecture: amd64\nVersion: 1:4.13-1\nSource: {source}\n"

    (part,) = read(components.of_debian(parse_paragraphs(status), "debian-12"))["components"]

    assert PackageURL.from_string(part["purl"]).qualifiers.get("upstream") == upstream
    stated = {row["name"].removeprefix("aquasecurity:trivy:"): row["value"] for row in part.get("properties", [])}
    assert stated == properties


@pytest.mark.parametrize(
    ("field", "value"),
    [("Package", "Not A Name"), ("Package", ""), ("Version", "1 2"), ("Architecture", "a/b"), ("Status", "")],
)
def test_what_is_no_package_is_skipped(field: str, value: str) -> None:
    fields = {"Package": "tini", "Version": "0.19", "Architecture": "amd64", "Status": "install ok installed"}
    whole, broken = ("".join(f"{k}: {v}\n" for k, v in f.items()) for f in (fields, {**fields, field: value}))

    assert len(components.of_debian(parse_paragraphs(whole), "debian-12")) == 1
    assert components.of_debian(parse_paragraphs(broken), "debian-12") == []


def test_single_files_and_the_image_are_components() -> None:
    listed = [
        components.archive("examples", "5.23.0", "c" * 64),
        components.program("multinode", "0.1.0", "Apache-2.0"),
    ]

    parsed = read(listed)

    image = {
        "bom-ref": "image",
        "name": "multinode",
        "type": "container",
        "version": "torch2.13.0-transformers5.23.0",
    }
    assert parsed["metadata"] == {"component": image, "timestamp": "2026-07-08T00:00:00+00:00"}
    archive, program = sorted(parsed["components"], key=lambda part: str(part["name"]))
    assert (archive["type"], archive["hashes"][0]["content"]) == ("file", "c" * 64)
    assert (program["type"], program["licenses"]) == ("application", [{"license": {"id": "Apache-2.0"}}])


def test_the_bytes_are_the_same_twice_and_in_any_order() -> None:
    wheels = [wheel(name, "1.0", TORCH.replace("torch", name)) for name in ("numpy", "filelock", "tqdm")]
    files = [components.archive("examples", "5.23.0", "c" * 64)]
    turned = "\n\n".join(reversed(STATUS.strip().split("\n\n")))

    first, again = (
        document([*wheels, *components.of_debian(parse_paragraphs(STATUS), "debian-12"), *files]) for _ in "12"
    )
    other = document([*files, *components.of_debian(parse_paragraphs(turned), "debian-12"), *wheels[::-1]])

    assert first == again == other
    alike = [components.archive("examples", "5.23.0", letter * 64) for letter in "cd"]  # of two one is kept
    assert document(alike) == document(alike[::-1])


def test_the_serial_number_follows_from_the_content() -> None:
    listed = [components.archive("examples", "1", "c" * 64)]

    documents = [document(listed), document(listed, DAY + datetime.timedelta(days=1)), document([])]

    assert len({json.loads(text)["serialNumber"] for text in documents}) == 3


WHEELS = ["Name", "Version", "Summary", "Home-page", "Project-URL", "License", "License-Expression", "Classifier"]
DEBIAN = ["Package", "Status", "Architecture", "Maintainer", "Source"]
LONGER = ["Project-URL: Homepage, https://a.org/", "Home-page: https://", "Classifier: License :: "]
LINES = st.builds("{}: {}".format, st.sampled_from([*WHEELS, *DEBIAN, *LONGER]), st.text())
FOREIGN = st.text() | st.lists(LINES | st.just("")).map("\n".join)


@settings(deadline=None, max_examples=50)  # the first document loads the schema
@example(b"Metadata-Version: 2.4\nSummary: \x00\xff\n")
@given(FOREIGN.map(str.encode) | st.binary())
def test_any_metadata_is_read(metadata: bytes) -> None:
    (part,) = read([wheel("thing", "1.0", metadata)])["components"]

    assert (part["name"], part["version"]) == ("thing", "1.0")


@settings(deadline=None)
@example("Maintainer: \udcff not decoded\nSource: \udcff")
@given(FOREIGN)
def test_any_status_is_read(status: str) -> None:
    package = "Package: tini\nVersion: 1\nArchitecture: amd64\n"

    parsed = read(components.of_debian(parse_paragraphs(f"{package}{status}\n\n{status}"), "debian-12"))

    assert all(part["purl"].startswith("pkg:deb/debian/") for part in parsed.get("components", []))


# Licences from the metadata of wheels.


def shown(stated: Iterable[License]) -> list[str]:
    return [
        f"expression {licence.value}"
        if isinstance(licence, LicenseExpression)
        else f"id {licence.id}"
        if licence.id
        else str(licence.name)
        for licence in stated
    ]


@pytest.mark.parametrize(
    ("metadata", "stated"),
    [
        ("", []),
        ("License-Expression: MIT", ["id MIT"]),
        ("License-Expression: apache-2.0", ["id Apache-2.0"]),
        ("License-Expression: MPL-2.0 AND (MIT OR ISC)", ["expression MPL-2.0 AND (MIT OR ISC)"]),
        ("License-Expression: LicenseRef-Ours", ["LicenseRef-Ours"]),
        ("License-Expression: MIT\nLicense: BSD", ["id MIT"]),
        ("Classifier: License :: OSI Approved :: MIT License\nLicense: MIT", ["MIT License"]),
        (
            "Classifier: License :: Public Domain\nClassifier: License :: OSI Approved :: BSD License",
            ["BSD License", "Public Domain"],
        ),
        ("Classifier: License :: OSI Approved\nLicense: ISC", ["id ISC"]),
        ("Classifier: Programming Language :: Python\nLicense: ISC", ["id ISC"]),
        ("License: Apache 2.0 License", ["Apache 2.0 License"]),
        ("License: MIT OR Apache-2.0", ["expression MIT OR Apache-2.0"]),
        ("License: GPL", ["GPL"]),
        ("License: UNKNOWN", []),
        ("License: LICENSE.txt", []),
        ("License: See the LICENSE file", []),
        ("License: Permission is hereby granted, free of charge, to any person obtaining a copy of this software", []),
        ("License: MIT\n        as is", []),
    ],
)
def test_a_wheel_has_the_licences_that_its_metadata_name(metadata: str, stated: list[str]) -> None:
    raw, _ = parse_email(f"Metadata-Version: 2.4\nName: a\n{metadata}\n")

    assert shown(licences(raw)) == stated


@given(st.text(), st.lists(st.text()), st.text())
def test_any_statement_of_a_wheel_is_read(expression: str, classifiers: list[str], text: str) -> None:
    named = [f"License :: {name}" for name in classifiers]

    assert isinstance(licences({"license_expression": expression}), list)
    assert len(licences({"classifiers": named, "license": text})) <= max(1, len(named))
