"""Debian packages that dpkg-deb made and reads."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from images.debs import package
from images.debs.apt import Deb
from images.host.errors import WorldFault
from images.host.store import Store, sha256
from tests.support.packages import make


def test_a_package_says_what_it_is_even_when_its_file_has_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    deb = make(store, tmp_path, "tini", {"usr/bin/tini": b"x"})

    said = package.control(store, os.environ, deb)
    store.drop(store.place(deb.sha256, deb.filename))

    assert {"Package: tini", "Version: 1", "Maintainer: a@b.c"} <= {*said.splitlines()}
    assert package.control(store, os.environ, deb) == said


def test_the_files_of_a_package_are_a_tar(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    deb = make(store, tmp_path, "tini", {"usr/bin/tini": b"x"})

    with (
        package.tar_of_package(store, store.place(deb.sha256, deb.filename), os.environ) as path,
        tarfile.open(path) as tar,
    ):
        assert "./usr/bin/tini" in tar.getnames()


@pytest.mark.parametrize("content", [b"", b"!<arch>\nodd"])
def test_a_file_that_is_no_package_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.deb").write_bytes(content)
    digest, store = sha256(tmp_path / "odd.deb"), Store(tmp_path / "store")
    path = store.keep(tmp_path / "odd.deb", digest, "odd.deb")

    with pytest.raises(WorldFault, match=r"not a Debian package: odd\.deb"):
        package.control(store, os.environ, Deb("tini", "1", "amd64", "odd.deb", digest))
    with (
        pytest.raises(WorldFault, match=r"not a Debian package: odd\.deb"),
        package.tar_of_package(store, path, os.environ),
    ):
        pass
