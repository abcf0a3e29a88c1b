"""Layers, unpacked for an interpreter: what is laid out, and how it looks on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.base.base import Floor, of_debian
from images.host.store import Store
from images.layers import interpreter
from images.oci.layer import EPOCH, Ground, Layer, Part

SITE = "usr/local/lib/python3.11/dist-packages"
OLD = "usr/lib/python3/dist-packages"
GROUND = Ground({}, {"lib": "usr/lib"})
BASE = {
    "usr/bin/python3.11": b"an interpreter",
    "usr/lib/python3.11/os.py": b"a module",
    f"{OLD}/six.py": b"of the base",
    "usr/lib/x86_64-linux-gnu/libc.so.6": b"a library",
    "etc/passwd": b"root",
}
ABOVE = {f"{SITE}/one.py": b"1", f"{SITE}/two.py": b"1", "lib/x86_64-linux-gnu/libtwo.so": b"2"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def part(store: Store, name: str, files: dict[str, bytes], ground: Ground) -> Part:
    with store.aside() as path:
        with Layer(path, ground) as layer:
            for place, data in files.items():
                layer.file(place, data)
            written = layer.finish()
        store.keep(path, written.digest)
    return Part(name, written, reused=False)


def floor(store: Store) -> Floor:
    return Floor(
        layers=(part(store, "base", BASE, Ground()),), ground=GROUND, packages={}, passwd="",
        interpreter="usr/bin/python3.11", site=of_debian("3.11"), name="debian:x", links={}, sites=(SITE, OLD),
    )  # fmt: skip


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_an_interpreter_gets_its_modules_and_libraries_and_no_packages(store: Store) -> None:
    root = interpreter.unpack(store, floor(store))

    assert files(root) == {"usr/bin/python3.11", "usr/lib/python3.11/os.py", "usr/lib/x86_64-linux-gnu/libc.so.6"}
    assert interpreter.unpack(store, floor(store)) == root


def test_what_can_be_imported_is_laid_out_with_the_times_that_bytecode_knows(store: Store, tmp_path: Path) -> None:
    interpreter.importable(store, floor(store), [part(store, "above", ABOVE, GROUND)], tmp_path / "root")

    found = tmp_path / "root"
    assert files(found) == {
        f"{OLD}/six.py", f"{SITE}/one.py", f"{SITE}/two.py", "usr/lib/x86_64-linux-gnu/libtwo.so",
    }  # fmt: skip
    assert (found / SITE / "two.py").samefile(found / SITE / "one.py")
    assert (found / SITE / "one.py").stat().st_mtime == EPOCH
