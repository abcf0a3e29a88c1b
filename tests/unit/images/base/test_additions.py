"""What a base lacks, out of packages made here; and the user that is added only where nobody is."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from images.base import additions
from images.base.additions import LIBRARY, PIECES
from images.base.apt import Deb
from images.base.inspect import Facts, gather, keep
from images.base.overlay import Tree
from images.host.errors import UserFault, WorldFault
from images.host.store import Store, sha256
from images.layers.entrypoint_layer import USER, with_user
from tests.support.stand_in import PACKAGES, SYSTEM, Files, layer

TCMALLOC = b"\x7fELF\0GLIBC_2.2.5\0GLIBC_2.29\0GLIBCXX_3.4.99\0"
NEWER = b"\x7fELF\0GLIBC_2.36\0GLIBC_2.4\0"


def known(*layers: Files) -> Facts:
    tree = Tree()
    for number, files in enumerate(layers):
        with tarfile.open(fileobj=io.BytesIO(layer(files)), mode="r|") as tar:
            tree.add(tar, number, keep)
    return gather(tree, {})


def make_deb(store: Store, folder: Path, package: str, files: Files) -> Deb:
    """Write a package as dpkg-deb does: an ar archive with data.tar in it."""
    members = {"debian-binary": b"2.0\n", "control.tar": b"odd", "data.tar": layer(files)}
    path = folder / f"{package}.deb"
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for name, data in members.items():
            file.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode())
            file.write(data + b"\n" * (len(data) % 2))
    digest = sha256(path)
    store.keep(path, digest, path.name)
    return Deb(package, "1", "amd64", path.name, digest)


@pytest.fixture
def debs(tmp_path: Path) -> tuple[Store, tuple[Deb, ...]]:
    """Make the packages that the stand-in needs."""
    store = Store(tmp_path / "store")
    contents: dict[str, Files] = {
        "libgoogle-perftools4": {
            f"./{LIBRARY}/libtcmalloc.so.4": "libtcmalloc.so.4.5.10",
            f"./{LIBRARY}/libtcmalloc.so.4.5.10": TCMALLOC,
        },
        "tini": {"./usr/bin/tini-static": NEWER},
        "libnss-wrapper": {f"./{LIBRARY}/libnss_wrapper.so": NEWER},
    }
    return store, tuple(make_deb(store, tmp_path, name, files) for name, files in contents.items())


def test_what_the_base_lacks_comes_with_what_it_needs() -> None:
    bare = additions.lacking(known(SYSTEM, PACKAGES))
    some = additions.lacking(known(SYSTEM, {f"{LIBRARY}/libunwind.so.8": b"", "usr/bin/tini": b""}))

    assert set(bare) == set(PIECES)
    assert "liblzma.so.5" not in some and "tini" not in some and "libunwind.so.8" not in some
    assert "libgoogle-perftools4" in additions.packages(some)


def test_files_are_read_through_links_and_a_static_program_asks_nothing(debs: tuple[Store, tuple[Deb, ...]]) -> None:
    found = additions.read(*debs, ["tini", "libtcmalloc.so.4"], known(SYSTEM, PACKAGES))

    assert found == {"usr/bin/tini": NEWER, f"{LIBRARY}/libtcmalloc.so.4": TCMALLOC}


def test_a_newer_glibc_is_refused(debs: tuple[Store, tuple[Deb, ...]]) -> None:
    with pytest.raises(UserFault) as caught:
        additions.read(*debs, ["libtcmalloc.so.4", "libnss_wrapper.so"], known(SYSTEM, PACKAGES))

    assert "2.35" in caught.value.fact
    assert "libnss-wrapper needs glibc 2.36" in caught.value.value
    assert "tcmalloc" not in caught.value.value and "--base debian" in caught.value.remedy


def test_a_package_that_is_missing_or_odd_is_named(debs: tuple[Store, tuple[Deb, ...]]) -> None:
    with pytest.raises(WorldFault, match="libunwind8"):
        additions.read(*debs, ["libunwind.so.8"], known(SYSTEM))
    store, packages = debs
    wrong = replace(next(deb for deb in packages if deb.package == "tini"), package="libunwind8")
    with pytest.raises(WorldFault, match=r"tini\.deb"):
        additions.read(store, (wrong,), ["libunwind.so.8"], known(SYSTEM))


def test_links_lead_to_what_the_base_has_elsewhere_and_replace_nothing() -> None:
    elsewhere = known(SYSTEM, {"usr/lib/libtcmalloc.so.4": b"", f"{LIBRARY}/libtcmalloc.so.4.5.9": b""})

    assert additions.links(elsewhere, "usr/bin/python3.10") == {
        f"{LIBRARY}/libtcmalloc.so.4": "/usr/lib/libtcmalloc.so.4",
        "usr/local/bin/python": "/usr/bin/python3.10",
    }


@pytest.mark.parametrize(
    ("passwd", "added"),
    [
        ("root:x:0:0::/root:/bin/sh\n", True),
        ("", True),
        ("ubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n", False),
        ("multinode:x:7:7::/:/bin/sh\n", False),
        ("odd\n", True),
    ],
)
def test_a_user_is_added_only_where_uid_and_name_are_free(passwd: str, added: bool) -> None:
    assert with_user(passwd) == (f"{passwd}{USER}\n" if added else None)
