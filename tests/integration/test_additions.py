"""What a base lacks, out of packages that are made here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from images.base import additions
from images.base.additions import LIBRARY
from images.host.errors import UserFault, WorldFault
from images.host.store import Store, sha256
from images.model import Deb, Facts
from tests.support.base_facts import facts_of
from tests.support.elf import library
from tests.support.packages import make
from tests.support.stand_in import PACKAGES, SYSTEM

TCMALLOC = library(needs=["GLIBC_2.2.5", "GLIBC_2.29", "GLIBCXX_3.4.99"])
NEWER = library(needs=["GLIBC_2.36", "GLIBC_2.4"])
BASE = facts_of(SYSTEM, PACKAGES)  # its glibc is 2.35


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, tuple[Deb, ...]]:
    place = tmp_path_factory.mktemp("packages")
    store = Store(place / "store")
    tcmalloc: dict[str, bytes | str] = {
        f"{LIBRARY}/libtcmalloc.so.4": "libtcmalloc.so.4.5.10",
        f"{LIBRARY}/libtcmalloc.so.4.5.10": TCMALLOC,
    }
    return store, (
        make(store, place, "libgoogle-perftools4", tcmalloc),
        make(store, place, "tini", {"usr/bin/tini-static": NEWER}),
        make(store, place, "libnss-wrapper", {f"{LIBRARY}/libnss_wrapper.so": NEWER}),
    )


def read(packages: tuple[Store, tuple[Deb, ...]], names: list[str], facts: Facts = BASE) -> dict[str, bytes]:
    return additions.read_files(*packages, names, facts)


def test_files_are_read_through_links_and_a_static_program_needs_no_glibc(
    packages: tuple[Store, tuple[Deb, ...]],
) -> None:
    found = read(packages, ["tini", "libtcmalloc.so.4"])

    assert found == {"usr/bin/tini": NEWER, f"{LIBRARY}/libtcmalloc.so.4": TCMALLOC}


def test_a_newer_glibc_is_refused(packages: tuple[Store, tuple[Deb, ...]]) -> None:
    with pytest.raises(UserFault) as caught:
        read(packages, ["libtcmalloc.so.4", "libnss_wrapper.so"])

    assert "2.35" in caught.value.fact
    assert "libnss-wrapper needs glibc 2.36" in caught.value.value
    assert "tcmalloc" not in caught.value.value and "--base debian" in caught.value.remedy


def test_a_package_without_the_file_is_named(packages: tuple[Store, tuple[Deb, ...]]) -> None:
    store, (_, tini, _) = packages

    with pytest.raises(WorldFault, match=r"tini\.deb: usr/lib/.*libunwind"):
        read((store, (replace(tini, package="libunwind8"),)), ["libunwind.so.8"])


def test_a_file_that_is_no_package_is_named(packages: tuple[Store, tuple[Deb, ...]], tmp_path: Path) -> None:
    (tmp_path / "odd.deb").write_bytes(b"!<arch>\nodd")
    digest = sha256(tmp_path / "odd.deb")
    packages[0].keep(tmp_path / "odd.deb", digest, "odd.deb")

    with pytest.raises(WorldFault, match=r"odd\.deb"):
        read((packages[0], (Deb("tini", "1", "amd64", "odd.deb", digest),)), ["tini"])
