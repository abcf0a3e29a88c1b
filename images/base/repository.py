"""Exact .debs -> a flat repository in one tar, for an apt that has no network."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.base.apt import REMEDY, Deb, complaint
from images.host import process
from images.host.errors import WorldFault
from images.host.store import Store
from images.oci.layer import EPOCH

FOLDER = "debs"  # in the root file system while it is made


def write(store: Store, debs: Sequence[Deb], more: Mapping[str, str], out: Path, environ: Mapping[str, str]) -> None:
    """Write the packages, an index of them, and more files (path -> text) as a tar.

    Raises WorldFault when a package is not in the store.
    """
    index = []
    with tarfile.open(out, "w") as tar:
        for deb in debs:
            path = _lying(store, deb)
            size = path.stat().st_size
            index.append(paragraph(_control(path, environ), deb.sha256, size))
            with path.open("rb") as data:
                tar.addfile(_info(f"{FOLDER}/{deb.sha256}.deb", size), data)
        for name, text in {f"{FOLDER}/Packages": "\n".join(index), **more}.items():
            tar.addfile(_info(name, len(text.encode())), io.BytesIO(text.encode()))


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, EPOCH
    return info


def paragraph(control: str, sha256: str, size: int) -> str:
    """Write a package's paragraph of a Packages index from its control file (deb-control(5))."""
    return f"{control.rstrip()}\nFilename: ./{sha256}.deb\nSize: {size}\nSHA256: {sha256}\n"


def _lying(store: Store, deb: Deb) -> Path:
    path = store.whole(deb.sha256, deb.filename)
    if path is None:
        remedy = "Debian's mirrors drop old packages; use the bundle that was made with the lock"
        raise WorldFault("a Debian package is not in the store", f"{deb.filename} (sha256 {deb.sha256})", remedy)
    return path


def _control(path: Path, environ: Mapping[str, str]) -> str:
    done = process.run(["dpkg-deb", "--field", str(path)], environ, REMEDY)
    if done.code:
        raise WorldFault(
            "a file is not a Debian package", path.name, f"remove {path} and run it again: {complaint(done)}"
        )
    return done.out
