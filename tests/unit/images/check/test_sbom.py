"""What the SBOM of an image lists: the wheels, the packages of its base, and what was added to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from images.base.base import Base
from images.check import components, sbom
from images.debian.deb import Deb
from images.lock.lock import Examples, Lock
from images.plan.user_files import UserFile
from images.store.store import Store
from tests.support.bases import MANIFEST, base
from tests.support.locks import artifact, lock
from tests.support.stand_in import PACKAGES, SYSTEM

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.35-0ubuntu3.8
"""
UBUNTU = base(SYSTEM, PACKAGES, {"var/lib/dpkg/status": STATUS.encode()})
LOCK = lock([artifact("six", "1.17.0")], python="3.10", examples=Examples("examples.tar.zst", "c" * 64))


def control(deb: Deb) -> str:
    """Say of a package what dpkg-deb prints of one that is its own source."""
    return f"Package: {deb.package}\nVersion: {deb.version}\nArchitecture: {deb.architecture}\n"


def controls(said: Callable[[Deb], str] = control) -> sbom.Controls:
    return {deb: said(deb) for deb in LOCK.debian.debs}


def parts(locked: Lock, below: Base, store: Store, said: Callable[[Deb], str] = control) -> list[dict[str, Any]]:
    """Return the components of a document."""
    rows: list[dict[str, Any]] = json.loads(sbom.write_sbom(locked, [], below, store, controls(said)))["components"]
    return rows


def listed(place: Path, *, is_debian: bool) -> dict[str, list[dict[str, str]]]:
    """List the hashes of what the SBOM has, by package URL without its version."""
    below = base(SYSTEM, PACKAGES, {"var/lib/dpkg/status": STATUS.encode()}, is_debian=is_debian)
    rows = parts(LOCK, below, Store(place))
    return {row["purl"].partition("@")[0]: row.get("hashes", []) for row in rows if "purl" in row}


def test_a_pulled_base_brings_its_own_packages_and_debian_the_added_ones(tmp_path: Path) -> None:
    hashes = listed(tmp_path, is_debian=False)

    assert hashes["pkg:deb/ubuntu/libc6"] == []
    assert hashes["pkg:deb/debian/tini"] == [{"alg": "SHA-256", "content": "1" * 64}]
    assert hashes["pkg:pypi/intel-extension-for-pytorch"] == []
    assert "pkg:pypi/six" not in hashes  # it is replaced by a wheel, of which there is none here
    assert {"pkg:generic/multinode", "pkg:generic/transformers-examples"} <= hashes.keys()


def test_each_file_of_the_users_own_is_a_file_with_its_sha256(tmp_path: Path) -> None:
    locked = replace(LOCK, user_files=(UserFile("a.py", "7" * 64), UserFile("b", target="a.py")))

    files = [row for row in parts(locked, UBUNTU, Store(tmp_path)) if row["bom-ref"].startswith("file:")]

    hashes = [{"alg": "SHA-256", "content": "7" * 64}]
    assert files == [{"type": "file", "bom-ref": "file:/workspace/a.py", "name": "/workspace/a.py", "hashes": hashes}]


@pytest.mark.parametrize(
    ("suite", "distro"), [("bookworm", "debian-12"), ("trixie", "debian-13"), ("sid", "debian-sid")]
)
def test_packages_for_a_pulled_base_are_those_of_the_suite_in_the_lock(tmp_path: Path, suite: str, distro: str) -> None:
    locked = replace(LOCK, debian=replace(LOCK.debian, suite=suite))

    rows = parts(locked, UBUNTU, Store(tmp_path))

    assert [row["purl"].partition("distro=")[2] for row in rows if "deb/debian/tini@" in row.get("purl", "")] == [
        distro
    ]


@pytest.mark.parametrize(
    ("said", "upstream", "publisher"),
    [
        ("Source: gcc-12 (12.2.0-14)\nMaintainer: A\n B <a@b.c>\n", "gcc-12%4012.2.0-14", "A B <a@b.c>"),
        ("Package: six\nVersion: 2\nArchitecture: all\nSource: gcc-12\nStatus: deinstall\n", "gcc-12", None),
        ("Source: no source\n\nSource: gcc-12\n", "", None),
        ("", "", None),
    ],
)
def test_an_added_package_has_the_source_that_it_names_and_nothing_else_of_it(
    tmp_path: Path, said: str, upstream: str, publisher: str | None
) -> None:
    rows = parts(LOCK, UBUNTU, Store(tmp_path), lambda _: said)

    (component,) = (row for row in rows if "deb/debian/" in row.get("purl", ""))
    assert (component["name"], component["version"], component.get("publisher")) == ("tini", "0.19", publisher)
    assert component["purl"].partition("&upstream=")[2] == upstream
    names = [row["value"] for row in component.get("properties", []) if row["name"].endswith(":SrcName")]
    assert names == (["gcc-12"] if upstream else [])


def test_a_base_that_was_made_here_is_its_debian_packages(tmp_path: Path) -> None:
    hashes = listed(tmp_path, is_debian=True)

    assert not [purl for purl in hashes if purl.startswith("pkg:pypi/")]
    assert "pkg:deb/debian/tini" not in hashes  # dpkg in the stand-in does not have it


@pytest.mark.parametrize("is_debian", [True, False])
@pytest.mark.parametrize(
    ("release", "running"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, ("debian", "12")),
        ({"ID": "ubuntu", "VERSION_ID": "22.04"}, ("ubuntu", "22.04")),
        ({"ID": "debian"}, ("debian", None)),
        ({}, ("debian", None)),
    ],
)
def test_an_image_has_the_operating_system_of_its_base(
    tmp_path: Path, is_debian: bool, release: dict[str, str], running: tuple[str, str | None]
) -> None:
    below = replace(UBUNTU, manifest=None if is_debian else MANIFEST, facts=replace(UBUNTU.facts, release=release))

    rows = [row for row in parts(LOCK, below, Store(tmp_path)) if row["type"] == "operating-system"]

    assert [(row["name"], row.get("version")) for row in rows] == [running]


def test_equal_contents_have_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sbom.write_sbom(LOCK, [], UBUNTU, Store(tmp_path), controls())
    monkeypatch.setattr(components, "document", None)

    assert sbom.write_sbom(LOCK, [], UBUNTU, Store(tmp_path), controls()) == first


@pytest.mark.parametrize("is_debian", [True, False])
@pytest.mark.parametrize(
    "changes", [{"status": STATUS.replace("3.8", "3.9")}, {"release": {"ID": "debian", "VERSION_ID": "13"}}], ids=str
)
def test_a_base_that_says_otherwise_of_itself_has_another_document(
    tmp_path: Path, is_debian: bool, changes: dict[str, Any]
) -> None:
    """The same lock: `verify` may read the base from an image of others."""
    good, store = replace(UBUNTU, manifest=None if is_debian else MANIFEST), Store(tmp_path / "store")
    other = replace(good, facts=replace(good.facts, **changes))

    first = sbom.write_sbom(LOCK, [], other, store, controls())

    assert sbom.write_sbom(LOCK, [], good, store, controls()) != first
