"""The Python of Debian's packages, unpacked before a base is made of them, and what is compiled by it meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.compiling import compiler
from images.compiling.compiler import Packaged
from images.debian.deb import Deb
from images.host.errors import WorldFault
from images.platforms import AMD64
from images.store import fingerprint
from images.store.store import Store
from tests.support.packages import make

LIBRARY = "lib/x86_64-linux-gnu"
FILES: dict[str, dict[str, bytes | str]] = {
    "python3.11-minimal": {"usr/bin/python3.11": b"an interpreter"},
    "libpython3.11-minimal": {"usr/lib/python3.11/os.py": b"a module"},
    "libc6": {f"{LIBRARY}/ld-linux-x86-64.so.2": b"a loader", f"{LIBRARY}/libc.so.6": b"a library"},
    "libexpat1": {f"{LIBRARY}/libexpat.so.1": b"a library"},
    "zlib1g": {f"{LIBRARY}/libz.so.1": b"a library"},
    "tini": {"usr/bin/tini": b"an init"},
}


@pytest.fixture
def debs(store: Store, tmp_path: Path) -> list[Deb]:
    return [make(store, tmp_path / "packages", name, files) for name, files in FILES.items()]


def source(store: Store, debs: list[Deb]) -> Packaged:
    return compiler.choose_interpreter(store, debs, AMD64, "3.11")


def test_it_depends_on_its_own_packages_and_on_our_sources_alone(
    store: Store, debs: list[Deb], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make(store, tmp_path / "other", "zlib1g", {f"{LIBRARY}/libz.so.1": b"a newer library"})
    updated = [other if deb.package == "zlib1g" else deb for deb in debs]
    root = compiler.unpack(store, source(store, debs))

    assert source(store, debs[:-1]).identity == source(store, debs).identity
    assert source(store, updated).identity != source(store, debs).identity
    assert compiler.unpack(store, source(store, debs)) == root
    monkeypatch.setattr(fingerprint, "sources", lambda: "another release")
    assert compiler.unpack(Store(store.root), source(store, debs)) != root


def test_one_that_fails_is_unpacked_anew(store: Store, debs: list[Deb]) -> None:
    """As one does of which a power cut left empty files: those of an interpreter are not synced one by one."""
    root = compiler.unpack(store, source(store, debs))
    (root / "usr/bin/python3.11").write_bytes(b"")

    compiler.remove(store, root)

    assert (compiler.unpack(store, source(store, debs)) / "usr/bin/python3.11").read_bytes() == b"an interpreter"
    assert not list((store.root / "aside").iterdir())


def test_nothing_is_written_through_a_link_of_another_package(store: Store, debs: list[Deb], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = "usr/lib/python3.11/k"
    more: dict[str, dict[str, bytes | str]] = {
        "libexpat1": {place: str(outside)},
        "zlib1g": {f"{place}/precious": b"evil"},
    }
    hostile = [make(store, tmp_path / "other", name, files) for name, files in more.items()]

    with pytest.raises(WorldFault, match="below what is no directory"):
        compiler.unpack(store, source(store, [*debs[:3], *hostile]))

    assert not list(outside.iterdir())
