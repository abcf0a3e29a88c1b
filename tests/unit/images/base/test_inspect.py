"""What is read out of a root file system and of shared libraries, and what is refused as a base."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from images.base import inspect
from images.base.inspect import debian_packages, list_distributions, record_paths
from images.foreign import libraries
from images.host.errors import WorldFault
from images.platforms import AMD64
from tests.support.base_facts import facts_of, tree_of
from tests.support.elf import library
from tests.support.stand_in import LIBRARY, SITE, SYSTEM, Files, digest, layer


@pytest.mark.parametrize(
    ("files", "name", "version"),
    [
        ({f"{SITE}/a_b-1.0+cpu.dist-info/RECORD": b"x,,"}, "a-b", "1.0+cpu"),
        ({f"{SITE}/A.b-1.0.dist-info/METADATA": b""}, "a-b", "1.0"),
    ],
)
def test_an_installed_package_is_known_by_its_name_in_normal_form(files: Files, name: str, version: str) -> None:
    tree = tree_of({**files, f"{SITE}/0.py": b"", f"{SITE}/0\n-1.0.dist-info/RECORD": b"", f"{SITE}/module.py": b""})

    assert [(d.name, d.version) for d in list_distributions(tree, SITE)] == [(name, version)]


def test_record_paths_do_not_leave_the_root() -> None:
    text = 'a.py,sha256=x,1\n"b,c.py",,\n../../../bin/run,,\n/opt/x,,\n../../../../../../etc/y,,\n'

    assert record_paths(text, SITE) == [f"{SITE}/a.py", f"{SITE}/b,c.py", "usr/local/bin/run", "opt/x", "etc/y"]


@given(st.text())
def test_any_record_is_read(text: str) -> None:
    assert all(not path.startswith(("/", "..")) for path in record_paths(text, SITE))


STATUS = """Package: python3
Status: install ok installed
Version: 3.11.2-1+b1
Description: interactive high-level
 Python is: a language
 Version: not this one

Package: tini
Version: 0.19.0-1
"""


def test_packages_of_debian_have_the_version_of_their_status() -> None:
    assert debian_packages(STATUS) == {"python3": "3.11.2-1+b1", "tini": "0.19.0-1"}


BANNER = b"\0\x7fELF GNU C Library (Ubuntu GLIBC 2.39-0ubuntu8) stable release version 2.39.\nCopyright"


def test_a_layer_is_the_one_that_the_configuration_names(tmp_path: Path) -> None:
    data, place = layer(SYSTEM), tmp_path / "blob"
    place.write_bytes(data)

    assert inspect.read_facts([(place, digest(data))], {}, AMD64)[1] == [len(data)]
    with pytest.raises(WorldFault, match="not what the configuration says"):
        inspect.read_facts([(place, digest(b"another layer"))], {}, AMD64)


@pytest.mark.parametrize("name", ["libc.so.6", "libc-2.31.so"])  # an older glibc is behind a link
def test_the_library_itself_knows_its_release_better_than_its_package(name: str) -> None:
    more: Files = {} if name == "libc.so.6" else {f"{LIBRARY}/libc.so.6": name}

    assert facts_of(SYSTEM, {**more, f"{LIBRARY}/{name}": BANNER}).glibc == "2.39"


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
    facts = facts_of(SYSTEM, files, path=path)

    assert (facts.pythons[python], facts.sites[python]) == (file, (site,))


def test_what_forbids_pip_to_install_is_found() -> None:
    place = "usr/lib/python3.10/EXTERNALLY-MANAGED"

    assert facts_of(SYSTEM, {place: b"[externally-managed]\n"}).marks == {"3.10": place}
    assert facts_of(SYSTEM).marks == {}


@pytest.mark.parametrize(
    ("versions", "newest"),
    [([], "0"), (["GLIBC_2.2.5", "GLIBC_2.29", "GLIBC_2.4", "GLIBCXX_3.4.99"], "2.29"), (["GLIBC_PRIVATE"], "0")],
)
def test_the_newest_version_that_a_library_needs(versions: list[str], newest: str) -> None:
    assert inspect.newest_symbol(library(needs=versions), "GLIBC") == Version(newest)


def test_a_long_name_is_not_read_for_every_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "MOST_READ", 4 << 20)
    data = library(needs=["GLIBC_2." + "9" * (1 << 16)] * 400)

    tracemalloc.start()
    try:
        assert inspect.newest_symbol(data, "GLIBC") == Version("0")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
