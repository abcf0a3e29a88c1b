"""What is in a Debian package: its files as a tar, and what it says of itself, both read by dpkg-deb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from images.debs.apt import Deb
from images.host import process
from images.host.errors import WorldFault
from images.host.process import Result
from images.host.store import Store

DPKG = "sudo apt-get install dpkg (on Debian and Ubuntu it is there)"


@contextmanager
def tar_of_package(store: Store, deb: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files of a package as a tar.

    Raises WorldFault when it is no package.
    """
    with store.aside() as path:
        with path.open("wb") as out:
            done = process.run(["dpkg-deb", "--fsys-tarfile", str(deb)], environ, DPKG, out=out)
        _require_package(done, deb)
        yield path


def control(store: Store, environ: Mapping[str, str], deb: Deb) -> str:
    """Return what a package says of itself (deb-control(5)); the store keeps what was read.

    Raises WorldFault when the store does not have the package, or when it is no package.
    """

    def read() -> str:
        path = store.blob(deb.sha256, deb.filename)
        if path is None:
            raise missing(deb.package)
        done = process.run(["dpkg-deb", "--field", str(path)], environ, DPKG)
        _require_package(done, path)
        return done.out

    return str(store.cached("controls", deb.sha256, read).value)


def missing(package: str) -> WorldFault:
    """Return the fault of a package that should be in the store."""
    return WorldFault("a package of Debian is missing", package, "build again, or make a new lock")


def _require_package(done: Result, deb: Path) -> None:
    if done.code:
        remedy = f"remove {deb} and run it again: {done.complaint}"
        raise WorldFault("a file is not a Debian package", deb.name, remedy)
