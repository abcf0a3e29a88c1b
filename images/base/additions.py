"""What images need and a base may lack: single files out of Debian's packages; those of the base are left alone."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from images.base.base import Facts
from images.base.inspect import needed
from images.debs import package
from images.debs.apt import Deb
from images.foreign import tars
from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.oci.layer import LayerWriter

LIBRARY = "usr/lib/x86_64-linux-gnu"
TCMALLOC = "libtcmalloc.so.4"
# The path that the Hugging Face guide writes out, whatever release of tcmalloc there is.
GUIDE = {f"{LIBRARY}/{TCMALLOC}.5.9": TCMALLOC}


@dataclass(frozen=True)
class Piece:
    """A file: where it goes, the package that has it, its path there, and the libraries that may have to come along."""

    place: str
    package: str
    source: str
    needs: tuple[str, ...] = ()


PIECES = {
    "tini": Piece("usr/bin/tini", "tini", "usr/bin/tini-static"),  # static: it asks nothing of the base's glibc
    TCMALLOC: Piece(
        f"{LIBRARY}/{TCMALLOC}", "libgoogle-perftools4", f"{LIBRARY}/{TCMALLOC}", ("libunwind.so.8", "libstdc++.so.6")
    ),
    "libunwind.so.8": Piece(
        f"{LIBRARY}/libunwind.so.8", "libunwind8", f"{LIBRARY}/libunwind.so.8", ("liblzma.so.5", "libgcc_s.so.1")
    ),
    "liblzma.so.5": Piece(f"{LIBRARY}/liblzma.so.5", "liblzma5", "lib/x86_64-linux-gnu/liblzma.so.5"),
    "libstdc++.so.6": Piece(
        f"{LIBRARY}/libstdc++.so.6", "libstdc++6", f"{LIBRARY}/libstdc++.so.6", ("libgcc_s.so.1",)
    ),
    "libgcc_s.so.1": Piece(f"{LIBRARY}/libgcc_s.so.1", "libgcc-s1", "lib/x86_64-linux-gnu/libgcc_s.so.1"),
    "libnss_wrapper.so": Piece(
        f"{LIBRARY}/libnss_wrapper.so", "libnss-wrapper", f"{LIBRARY}/libnss_wrapper.so"
    ),
}  # fmt: skip
NEEDED = ("tini", TCMALLOC, "libnss_wrapper.so")

HOPS = 8  # links from a library's usual name to its file: two in Debian


def lacking(facts: Facts) -> tuple[str, ...]:
    """Return the names of the PIECES that a base does not have, and of what those need and it does not have either."""
    found: dict[str, None] = {}
    ahead = [*NEEDED]
    while ahead:
        name = ahead.pop(0)
        if name not in found and not _has(facts, name):
            found[name] = None
            ahead += PIECES[name].needs
    return tuple(found)


def packages(names: Sequence[str]) -> tuple[str, ...]:
    """Return the Debian packages that have these PIECES."""
    return tuple(sorted({PIECES[name].package for name in names}))


def links(facts: Facts, interpreter: str) -> dict[str, str]:
    """Return links (path -> target) from where the guide, people and programs look to what the base has."""
    found = {place: target for place, target in GUIDE.items() if posixpath.basename(place) not in facts.libraries}
    real = facts.directories.resolve
    for name in (TCMALLOC, "libnss_wrapper.so"):
        place = f"{LIBRARY}/{name}"
        there = facts.libraries.get(name)
        if there and real(there) != real(place):
            found[place] = f"/{there}"
    found |= {
        f"usr/local/bin/{name}": f"/{interpreter}" for name in ("python", "python3") if name not in facts.commands
    }
    return found


def read_files(
    store: Store, debs: Sequence[Deb], names: Sequence[str], facts: Facts, environ: Mapping[str, str]
) -> dict[str, bytes]:
    """Return the files that `lacking` named, as place in the image -> content, out of their packages in the store.

    Raises UserFault when one needs a newer glibc than the base has, WorldFault when a package is not as expected.
    """
    found: dict[str, bytes] = {}
    reasons = []
    for name in names:
        piece = PIECES[name]
        deb = next((deb for deb in debs if deb.package == piece.package), None)
        path = store.blob(deb.sha256, deb.filename) if deb else None
        if path is None:
            raise package.missing(piece.package)
        found[piece.place] = data = _file(store, path, piece.source, environ)
        if name != "tini" and (newest := needed(data, "GLIBC")) > Version(facts.glibc or "0"):
            reasons.append(f"{name} of {piece.package} needs glibc {newest}")
    if reasons:
        remedy = f"a base that has {', '.join(names)} of its own, or --base debian"
        raise UserFault(f"what the base lacks does not run on its glibc {facts.glibc}", "; ".join(reasons), remedy)
    return found


def member(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], path: str) -> bytes:
    """Return the content of a file in a tar, through links within it; `members` are the entries of the tar.

    Raises LookupError when there is none.
    """
    info = members[path]
    for _ in range(HOPS):
        if not info.issym():
            break
        target = posixpath.join("/", posixpath.dirname(posixpath.normpath(info.name)), info.linkname)
        info = members[posixpath.normpath(target).lstrip("/")]
    file = tar.extractfile(info) if info.isfile() else None
    if file is None:
        raise LookupError(path)
    return file.read()


def write_files(layer: LayerWriter, files: Mapping[str, bytes], facts: Facts) -> None:
    """Write the files into a layer; where the base has no directory of Debian's for libraries, lib64 gets links."""
    for place, data in sorted(files.items()):
        layer.file(place, data, 0o755 if place.startswith("usr/bin/") else 0o644)
    if LIBRARY not in facts.directories.owners:
        for place in sorted(place for place in files if place.startswith(LIBRARY)):
            layer.link(f"usr/lib64/{posixpath.basename(place)}", f"/{place}")


def _file(store: Store, deb: Path, source: str, environ: Mapping[str, str]) -> bytes:
    """Read a file out of a package."""
    try:
        with package.tar_of_package(store, deb, environ) as path, tars.open_file(path) as tar:
            return member(tar, tars.listed(tar, path.stat().st_size), source)
    except (LookupError, tarfile.TarError) as error:
        remedy = "another suite in images/versions.toml, or a base that has it"
        raise WorldFault("a package of Debian does not have what it should", f"{deb.name}: {source}", remedy) from error


def _has(facts: Facts, name: str) -> bool:
    if name == "tini":
        return "/" in (facts.tini or "")  # at the root itself, where some images have it, no PATH finds it
    return name in facts.libraries
