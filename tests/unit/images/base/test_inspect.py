"""What is read out of a root file system, and out of shared libraries."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from images.base import inspect
from images.host.errors import WorldFault
from tests.support.base_facts import facts_of
from tests.support.elf import library
from tests.support.stand_in import IPEX, LIBRARY, PACKAGES, SITE, SYSTEM, Files, digest, layer

BANNER = b"\0\x7fELF GNU C Library (Ubuntu GLIBC 2.39-0ubuntu8) stable release version 2.39.\nCopyright"


def test_the_stand_in_for_intels_image_is_understood() -> None:
    found = facts_of(SYSTEM, PACKAGES)

    assert (found.glibc, found.musl) == ("2.35", False)
    assert found.pythons == {"3.10": "usr/bin/python3.10"}
    assert found.sites == {"3.10": (SITE, "usr/lib/python3/dist-packages")}
    assert (found.sshd, found.shell, found.tini) == ("usr/sbin/sshd", "usr/bin/sh", None)
    assert found.release["VERSION_ID"] == "22.04"
    assert found.packages["openssh-server"] == "1:8.9p1-3ubuntu0.10"
    assert found.passwd.startswith("root:")
    assert found.directories.links == {"bin": "usr/bin", "lib": "usr/lib"}
    assert found.directories.resolve("lib/x") == "usr/lib/x"
    assert found.directories.owners["etc"] == (0o755, 0, 0)


def test_a_layer_is_the_one_that_the_configuration_names(tmp_path: Path) -> None:
    data, place = layer(SYSTEM), tmp_path / "blob"
    place.write_bytes(data)

    assert inspect.read_facts([(place, digest(data))], {})[1] == [len(data)]
    with pytest.raises(WorldFault, match="not what the configuration says"):
        inspect.read_facts([(place, digest(b"another layer"))], {})


def test_packages_come_with_the_files_of_their_lists_that_are_there() -> None:
    installed = {d.name: d for d in facts_of(SYSTEM, PACKAGES).distributions}

    assert {name: d.version for name, d in installed.items()} == {
        "intel-extension-for-pytorch": "2.3.0+cpu",
        "oneccl-bind-pt": "2.4.0+cpu",
    }
    files = installed["intel-extension-for-pytorch"].files or ()
    assert "usr/local/bin/ipexrun" in files and f"{IPEX}/__init__.py" in files


def test_facts_come_back_from_json_as_they_were() -> None:
    found = facts_of(SYSTEM, PACKAGES)

    assert inspect.from_plain(json.loads(json.dumps(asdict(found)))) == found


def test_the_library_itself_knows_its_release_better_than_its_package() -> None:
    assert facts_of(SYSTEM, {f"{LIBRARY}/libc.so.6": BANNER}).glibc == "2.39"


def test_an_older_glibc_is_behind_a_link() -> None:
    found = facts_of({"lib/x86_64-linux-gnu/libc.so.6": "libc-2.31.so", "lib/x86_64-linux-gnu/libc-2.31.so": BANNER})

    assert found.glibc == "2.39"


def test_musl_is_seen_where_there_is_no_glibc() -> None:
    musl: Files = {"lib/ld-musl-x86_64.so.1": b""}

    assert facts_of(musl).musl
    assert facts_of(musl).glibc is None
    assert not facts_of(SYSTEM, musl).musl


def test_tini_is_found_where_it_is() -> None:
    assert facts_of(SYSTEM, {"usr/bin/tini": b""}).tini == "usr/bin/tini"


WHOLE = library("liba.so.1", needs=["GLIBC_2.2.5", "GLIBC_2.29"], has=["GLIBCXX_3.4", "GLIBCXX_3.4.30"])


@pytest.mark.parametrize(
    ("versions", "newest"),
    [([], "0"), (["GLIBC_2.2.5", "GLIBC_2.29", "GLIBC_2.4", "GLIBCXX_3.4.99"], "2.29"), (["GLIBC_PRIVATE"], "0")],
)
def test_the_newest_version_that_a_library_needs(versions: list[str], newest: str) -> None:
    assert inspect.needed(library(needs=versions), "GLIBC") == Version(newest)


def test_a_name_of_megabytes_is_not_read_for_every_entry() -> None:
    data = library(needs=["GLIBC_2." + "9" * (1 << 20)] * 1000)

    tracemalloc.start()
    try:
        assert inspect.needed(data, "GLIBC") == Version("0")
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()


@given(st.binary() | st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)) | st.integers(0, len(WHOLE)))
def test_any_file_is_read(change: bytes | tuple[int, int] | int) -> None:
    if isinstance(change, bytes):
        data = change
    elif isinstance(change, int):
        data = WHOLE[:change]
    else:
        data = WHOLE[: change[0]] + bytes([change[1]]) + WHOLE[change[0] + 1 :]

    assert inspect.needed(data, "GLIBC") <= Version("2.29")
