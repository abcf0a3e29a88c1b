"""What is cleaned out of a Debian root file system, and what is read from it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from images.base.debian import DIRTY, Debian, cleaned, texts
from images.host.errors import WorldFault
from images.host.store import Store
from images.oci.layer import EPOCH, Ground, Layer


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("etc/ssh/ssh_host_rsa_key", True),
        ("etc/ssh/sshd_config", False),
        ("etc/machine-id", True),
        ("etc/resolv.conf", True),
        ("etc/hostname", True),
        ("usr/bin/hostname", False),
        ("var/log/dpkg.log", True),
        ("var/log", False),
        ("var/cache/ldconfig/aux-cache", True),
        ("var/lib/dpkg/status", False),
        ("var/lib/dpkg/status-old", True),
        ("etc/shadow-", True),
        ("etc/shadow", False),
        ("dev/null", True),
        ("dev", False),
    ],
)
def test_dirt(path: str, dirty: bool) -> None:
    assert bool(DIRTY.match(path)) is dirty


def tar_of(members: list[tuple[tarfile.TarInfo, bytes]]) -> tarfile.TarFile:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return tarfile.open(fileobj=io.BytesIO(out.getvalue()))


def entry(name: str, mtime: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mtime, info.uname = mtime, "builder"
    return info


def test_times_are_clamped_in_the_tar_and_in_bytecode() -> None:
    late, early = EPOCH + 500, EPOCH - 500
    pyc = b"\xa7\r\r\n" + bytes(4) + late.to_bytes(4, "little") + b"1234code"
    members = [(entry("./a.py", late), b"code"), (entry("./__pycache__/a.pyc", late), pyc), (entry("./b", early), b"")]

    made = {info.name: (info, data.read() if data else b"") for info, data in cleaned(tar_of(members))}

    assert made["a.py"][0].mtime == EPOCH
    assert made["b"][0].mtime == early
    assert made["__pycache__/a.pyc"][1] == pyc[:8] + EPOCH.to_bytes(4, "little") + pyc[12:]
    assert {info.uname for info, _ in made.values()} == {""}


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Store, Debian]:
    """Write a layer with licences as Debian lays them out: some shared through links."""
    store = Store(tmp_path / "store")
    with Layer(tmp_path / "layer", Ground()) as layer:
        layer.file("usr/share/doc/gcc-12-base/copyright", b"GPL-3+")
        layer.link("usr/share/doc/libgcc-s1", "gcc-12-base")
        layer.link("usr/share/doc/tini/copyright", "../gcc-12-base/copyright")
        layer.file("usr/share/doc/same/copyright", b"GPL-3+")
        layer.file("usr/share/doc/latin/copyright", b"J\xf6rg")
        layer.file("usr/share/doc/deep/er/copyright", b"no")
        layer.file("var/lib/dpkg/status", b"Package: tini\n")
        layer.file("usr/lib/status", b"no")
        written = layer.finish()
    store.keep(tmp_path / "layer", written.digest)
    return store, Debian(written, Ground(), {}, "", ())


def test_texts_are_read_through_links(stored: tuple[Store, Debian]) -> None:
    read = texts(*stored, ["var/lib/dpkg/status", "usr/share/doc/*/copyright"])

    licence = {name: "GPL-3+" for name in ("gcc-12-base", "libgcc-s1", "same", "tini")} | {"latin": "J\ufffdrg"}
    assert read == {f"usr/share/doc/{name}/copyright": text for name, text in licence.items()} | {
        "var/lib/dpkg/status": "Package: tini\n"
    }
    assert list(read) == sorted(read)


def test_one_text_behind_a_link(stored: tuple[Store, Debian]) -> None:
    path = "usr/share/doc/libgcc-s1/copyright"

    assert texts(*stored, [path]) == {path: "GPL-3+"}
    assert texts(*stored, ["usr/share/doc/nothing/copyright"]) == {}


def test_texts_of_a_layer_that_is_gone(stored: tuple[Store, Debian]) -> None:
    store, debian = stored
    blob = store.blob(debian.written.digest)
    assert blob
    blob.unlink()

    with pytest.raises(WorldFault, match=debian.written.digest):
        texts(store, debian, ["var/lib/dpkg/status"])
