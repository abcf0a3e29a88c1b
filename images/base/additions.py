"""What images need and a base may lack: single files out of Debian's packages; those of the base are left alone."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from images.base.base import Facts
from images.base.inspect import newest_symbol
from images.debian import packages as debian
from images.debian.deb import Deb, load_package
from images.dpkg.tree import FILE, PackageTree
from images.host.errors import UserFault, WorldFault
from images.oci.layer_writer import LayerWriter
from images.store.store import Store

TCMALLOC = "libtcmalloc.so.4"
# By its path the Hugging Face guide loads tcmalloc, whatever release of it there is.
GUIDE = f"{TCMALLOC}.5.9"


@dataclass(frozen=True)
class Piece:
    """A file of a Debian package: which one, where it goes, what it is there, and the libraries that it may need.

    Another package may provide that one, as after a change of the library's interface. Of several sources the first
    counts that the package of a suite has. A name alone is that of a library in Debian's directory for them.
    """

    package: str
    place: str
    sources: tuple[str, ...]
    needs: tuple[str, ...] = ()


def _library(package: str, name: str, *needs: str) -> Piece:
    return Piece(package, name, (name,), needs)


def library_directory(facts: Facts) -> str:
    """Return Debian's directory for the libraries of a base's machine."""
    return f"usr/lib/{facts.multiarch}"


def _place_piece(path: str, facts: Facts) -> str:
    return path if "/" in path else f"{library_directory(facts)}/{path}"


PIECES = {
    # The static one asks nothing of the base's glibc; newer suites have only the other.
    "tini": Piece("tini", "usr/bin/tini", ("usr/bin/tini-static", "usr/bin/tini")),
    TCMALLOC: _library("libgoogle-perftools4", TCMALLOC, "libunwind.so.8", "libstdc++.so.6"),
    "libunwind.so.8": _library("libunwind8", "libunwind.so.8", "liblzma.so.5", "libgcc_s.so.1"),
    "liblzma.so.5": _library("liblzma5", "liblzma.so.5"),
    "libstdc++.so.6": _library("libstdc++6", "libstdc++.so.6", "libgcc_s.so.1"),
    "libgcc_s.so.1": _library("libgcc-s1", "libgcc_s.so.1"),
    "libnss_wrapper.so": _library("libnss-wrapper", "libnss_wrapper.so"),
}
NEEDED = ("tini", TCMALLOC, "libnss_wrapper.so")


def list_missing_pieces(facts: Facts) -> tuple[str, ...]:
    """Return the names of the PIECES that a base does not have, and of what those need and it does not have either."""
    missing: dict[str, None] = {}
    ahead = [*NEEDED]
    while ahead:
        name = ahead.pop(0)
        if name not in missing and not _has_piece(facts, name):
            missing[name] = None
            ahead += PIECES[name].needs
    return tuple(missing)


def packages_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the Debian packages that have these PIECES."""
    return tuple(sorted({PIECES[name].package for name in names}))


def choose_links(facts: Facts, interpreter: str) -> dict[str, str]:
    """Return links (path -> target) from where the guide, people and programs look to what the base has."""
    links = {} if GUIDE in facts.libraries else {_place_piece(GUIDE, facts): TCMALLOC}
    real = facts.directories.resolve
    for name in (TCMALLOC, "libnss_wrapper.so"):
        place = _place_piece(name, facts)
        there = facts.libraries.get(name)
        if there and real(there) != real(place):
            links[place] = f"/{there}"
    links |= {
        f"usr/local/bin/{name}": f"/{interpreter}" for name in ("python", "python3") if name not in facts.commands
    }
    return links


def read_pieces(store: Store, chosen: Sequence[Deb], names: Sequence[str], facts: Facts) -> dict[str, bytes]:
    """Return files of PIECES by their names, as place in the image -> content, out of their packages in the store.

    Raises UserFault when one needs a newer glibc than the base has, WorldFault when a package is not as expected.
    """
    files: dict[str, bytes] = {}
    reasons = []
    for name in names:
        piece = PIECES[name]
        deb = debian.find_provider(store, chosen, piece.package)
        if deb is None:
            raise WorldFault("a package of Debian is missing", piece.package, "make a new lock (build.py lock)")
        sources = [_place_piece(source, facts) for source in piece.sources]
        files[_place_piece(piece.place, facts)] = data = file_of(debian.require_package(store, deb), *sources)
        if (newest := newest_symbol(data, "GLIBC")) > Version(facts.glibc or "0"):
            reasons.append(f"{name} of {piece.package} needs glibc {newest}")
    if reasons:
        remedy = f"a base that has {', '.join(names)} of its own, or --base debian"
        raise UserFault(f"what the base lacks does not run on its glibc {facts.glibc}", "; ".join(reasons), remedy)
    return files


def write_pieces(layer: LayerWriter, files: Mapping[str, bytes], facts: Facts) -> None:
    """Write the files into a layer; where the base has no directory of Debian's for libraries, lib64 gets links."""
    for place, data in sorted(files.items()):
        layer.file(place, data, 0o755 if place.startswith("usr/bin/") else 0o644)
    place_of_libraries = library_directory(facts)
    if place_of_libraries not in facts.directories.owners:
        for place in sorted(place for place in files if place.startswith(place_of_libraries)):
            layer.link(f"usr/lib64/{posixpath.basename(place)}", f"/{place}")


def file_of(deb: Path, *paths: str) -> bytes:
    """Read the first of these files that a package has, through links within it.

    Raises WorldFault where it has none of them, or is no package.
    """
    tree = PackageTree()
    tree.unpack(load_package(deb))
    for path in paths:
        entry = tree.entries.get(tree.real(path))
        if entry is not None and entry.kind == FILE:
            return entry.data
    remedy = "another suite in images/versions.toml, or a base that has it"
    raise WorldFault("a package of Debian does not have what it should", f"{deb.name}: {' or '.join(paths)}", remedy)


def _has_piece(facts: Facts, name: str) -> bool:
    if name == "tini":
        return "/" in (facts.tini or "")  # at the root itself, where some images have it, no PATH finds it
    return name in facts.libraries
