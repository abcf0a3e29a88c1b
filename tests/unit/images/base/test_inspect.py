"""What is read out of a root file system and of shared libraries, and what is refused as a base."""

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
from images.base.inspect import refuse
from images.host.errors import UserFault, WorldFault
from images.platforms import AMD64
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

    assert inspect.read_facts([(place, digest(data))], {}, AMD64)[1] == [len(data)]
    with pytest.raises(WorldFault, match="not what the configuration says"):
        inspect.read_facts([(place, digest(b"another layer"))], {}, AMD64)


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


@pytest.mark.parametrize("name", ["libc.so.6", "libc-2.31.so"])  # an older glibc is behind a link
def test_the_library_itself_knows_its_release_better_than_its_package(name: str) -> None:
    more: Files = {} if name == "libc.so.6" else {f"{LIBRARY}/libc.so.6": name}

    assert facts_of(SYSTEM, {**more, f"{LIBRARY}/{name}": BANNER}).glibc == "2.39"


MUSL: Files = {"bin/sh": b"", "lib/ld-musl-x86_64.so.1": b"", "usr/bin/python3.12": b""}


@pytest.mark.parametrize(
    ("layers", "python", "glibc", "reasons"),
    [
        ([MUSL], "3.12", "2.28", ["musl"]),
        ([SYSTEM, PACKAGES], "3.10", "2.36", ["its glibc is 2.35, 2.36 is needed"]),
        ([SYSTEM, {"usr/bin/.wh.sh": b""}], "3.10", "2.28", ["no shell"]),
        ([SYSTEM, PACKAGES], "3.11", "2.28", ["no Python 3.11 (it has 3.10)"]),
        ([{"etc/passwd": b""}], "3.11", "2.28", ["no glibc", "it has none"]),
    ],
)
def test_what_cannot_work_is_refused_with_every_reason(
    layers: list[Files], python: str, glibc: str, reasons: list[str]
) -> None:
    with pytest.raises(UserFault) as caught:
        refuse(facts_of(*layers), "registry/image:1", python, glibc)

    assert caught.value.value.startswith("registry/image:1: ")
    assert all(reason in caught.value.value for reason in reasons)


def test_what_can_work_is_not_refused() -> None:
    refuse(facts_of(SYSTEM, PACKAGES), "registry/image:1", "3.10", "2.35")


def test_a_python_in_a_virtual_environment_is_refused() -> None:
    files: Files = {f"opt/venv/bin/{name}": "/usr/bin/python3.10" for name in ("python3", "python3.10")}
    found = facts_of(SYSTEM, {**files, "opt/venv/pyvenv.cfg": b"home = /usr/bin\n"}, path="/opt/venv/bin:/usr/bin")

    with pytest.raises(UserFault, match=r"its python3 is another program, not 3\.10"):
        refuse(found, "image", "3.10", "2.35")


@pytest.mark.parametrize(
    ("files", "path", "python", "file", "site"),
    [
        (
            {"opt/conda/bin/python3.11": b"", "opt/conda/lib/python3.11/site-packages/a.py": b""},
            "/opt/conda/bin:/usr/bin", "3.11", "opt/conda/bin/python3.11", "opt/conda/lib/python3.11/site-packages",
        ),
        (  # the first one on the path counts
            {"usr/local/bin/python3.10": b""},
            "/usr/local/bin:/usr/bin", "3.10", "usr/local/bin/python3.10", "usr/local/lib/python3.10/site-packages",
        ),
        (  # Python goes by the prefix that a link leads to
            {"usr/local/bin/python3.11": "/opt/py/bin/python3.11", "opt/py/bin/python3.11": b""},
            "/usr/local/bin", "3.11", "opt/py/bin/python3.11", "opt/py/lib/python3.11/site-packages",
        ),
    ],
)  # fmt: skip
def test_a_python_has_the_packages_of_its_prefix(files: Files, path: str, python: str, file: str, site: str) -> None:
    found = facts_of(SYSTEM, files, path=path)

    assert (found.pythons[python], found.sites[python]) == (file, (site,))


def test_what_forbids_pip_to_install_is_found() -> None:
    place = "usr/lib/python3.10/EXTERNALLY-MANAGED"

    assert facts_of(SYSTEM, {place: b"[externally-managed]\n"}).marks == {"3.10": place}
    assert facts_of(SYSTEM).marks == {}


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
