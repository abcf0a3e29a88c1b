"""Layers, unpacked for an interpreter: what is laid out, and what is then on disk."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from images.base.inspect import of_debian
from images.host.store import Store, sha256
from images.layers import interpreter
from images.model import Base, Directories, Layer, Written
from images.oci.layer import LayerWriter
from images.platforms import AMD64
from tests.support.base_facts import facts_of

SITE = "usr/local/lib/python3.11/dist-packages"
OLD = "usr/lib/python3/dist-packages"
BELOW = Directories({}, {"lib": "usr/lib"})
BASE = {
    "usr/bin/python3.11": b"an interpreter",
    "usr/lib/python3.11/os.py": b"a module",
    f"{OLD}/six.py": b"of the base",
    "usr/lib/x86_64-linux-gnu/libc.so.6": b"a library",
    "etc/passwd": b"root",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def part(store: Store, name: str, files: dict[str, bytes], below: Directories) -> Layer:
    with store.temporary() as path:
        with LayerWriter(path, below) as layer:
            for place, data in files.items():
                layer.file(place, data)
            written = layer.finish()
        store.keep(path, written.digest)
    return Layer(name, written, reused=False)


@pytest.fixture
def base(store: Store) -> Base:
    facts = replace(facts_of(BASE), directories=BELOW, sites={"3.11": (SITE, OLD)})
    return Base(
        name="debian:x",
        layers=(part(store, "base", BASE, Directories()),),
        facts=facts,
        site=of_debian("3.11"),
        links={},
    )


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_an_interpreter_gets_its_modules_and_libraries_and_no_packages(store: Store, base: Base) -> None:
    root = interpreter.unpack(store, interpreter.of_base(store, base, AMD64))

    assert files(root) == {"usr/bin/python3.11", "usr/lib/python3.11/os.py", "usr/lib/x86_64-linux-gnu/libc.so.6"}
    assert interpreter.unpack(store, interpreter.of_base(store, base, AMD64)) == root


def test_a_change_of_our_sources_unpacks_anew(store: Store, base: Base) -> None:
    other = Store(store.root, sources="another release")

    assert interpreter.unpack(store, interpreter.of_base(store, base, AMD64)) != interpreter.unpack(
        other, interpreter.of_base(other, base, AMD64)
    )


def test_one_that_fails_is_unpacked_anew(store: Store, base: Base) -> None:
    """As one does of which a power cut left empty files: those of an interpreter are not synced one by one."""
    root = interpreter.unpack(store, interpreter.of_base(store, base, AMD64))
    (root / "usr/bin/python3.11").write_bytes(b"")

    for _ in range(2):  # another build removes it as well
        interpreter.remove(store, root)

    assert interpreter.unpack(store, interpreter.of_base(store, base, AMD64)) == root
    assert (root / "usr/bin/python3.11").read_bytes() == BASE["usr/bin/python3.11"]
    assert not list((store.root / "aside").iterdir())


def tar(store: Store, *entries: tarfile.TarInfo) -> Layer:
    """Keep a layer with these entries, every regular file of them with the content `evil`."""
    with store.temporary() as path:
        with tarfile.open(path, "w") as archive:
            for entry in entries:
                entry.size = 4 if entry.isreg() and ".wh." not in entry.name else 0
                archive.addfile(entry, io.BytesIO(b"evil"))
        digest = sha256(path)
        size = path.stat().st_size
        store.keep(path, digest)
    return Layer("hostile", Written(digest, digest, size, size), reused=False)


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


LIB = "usr/lib/python3.11"


def unpacked(store: Store, base: Base, *above: Layer) -> Path:
    return interpreter.unpack(store, interpreter.of_base(store, replace(base, layers=(*base.layers, *above)), AMD64))


@pytest.mark.parametrize(
    "layers",
    [
        [[entry(f"{LIB}/k", tarfile.SYMTYPE, "/{outside}")], [entry(f"{LIB}/k/authorized_keys")]],
        [[entry(f"{LIB}/k", tarfile.SYMTYPE, "/")], [entry(f"{LIB}/k/link", tarfile.SYMTYPE, "{outside}")],
         [entry(f"{LIB}/k/link/authorized_keys")]],
        [[entry(f"{LIB}/k", tarfile.SYMTYPE, "{up}{outside}")], [entry(f"{LIB}/k/precious")]],
        [[entry(f"{LIB}/k", tarfile.SYMTYPE, "{up}{outside}")], [entry(f"{LIB}/k/.wh.precious")]],
        [[entry(f"{LIB}/k", tarfile.SYMTYPE, "{up}{outside}")], [entry(f"{LIB}/k/.wh..wh..opq")]],
        [[entry(f"{LIB}/k", tarfile.SYMTYPE, "{up}{outside}")],
         [entry(f"{LIB}/l", tarfile.LNKTYPE, f"{LIB}/k/precious"), entry(f"{LIB}/l")]],
        [[entry(f"{up}{{outside}}/authorized_keys") for up in ("../../../../../../../..", "/")]],
    ],
)  # fmt: skip
def test_nothing_is_written_or_removed_outside_of_the_root(
    store: Store, base: Base, tmp_path: Path, layers: list[list[tarfile.TarInfo]]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    values = {"outside": str(outside), "up": "../" * 40}
    for layer in layers:
        for each in layer:
            each.name, each.linkname = each.name.format(**values), each.linkname.format(**values)
    hostile = tuple(tar(store, *layer) for layer in layers)

    unpacked(store, base, *hostile)

    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert (outside / "precious").read_text() == "precious"


def test_a_hard_link_below_the_file_that_it_leads_to_is_left_out(store: Store, base: Base) -> None:
    layer = tar(store, entry(f"{LIB}/a"), entry(f"{LIB}/a/b", tarfile.LNKTYPE, f"{LIB}/a"), entry(f"{LIB}/c"))

    assert f"{LIB}/c" in files(unpacked(store, base, layer))


def test_what_a_layer_hides_is_gone(store: Store, base: Base) -> None:
    hidden = tar(store, *(entry(f"{LIB}/k/{name}") for name in ("x.py", "y.py")))
    brought = tar(store, entry(f"{LIB}/k/.wh.x.py"), entry(f"{LIB}/k/new.py"))

    assert files(unpacked(store, base, hidden, brought) / LIB / "k") == {"new.py", "y.py"}
