"""The example scripts of transformers, from a release archive, a folder of the same layout, or a mirror's address."""

from __future__ import annotations

import os
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from images.host.download import Advance, fetch
from images.host.errors import UserFault, WorldFault
from images.host.store import Store, key_of, sha256
from images.lock.files import EXAMPLES
from images.oci.layer import Layer

NAME = EXAMPLES
PLACE = "workspace/transformers"
# The rest of the archive is the library itself, which comes as a wheel, with its tests and documentation.
TAKEN = ("examples/", "LICENSE", "README.md")


def obtain(store: Store, asked: str | None, certificate: str | None, advance: Advance) -> tuple[str, Path] | None:
    """Bring the examples into the store as an archive; answer its sha256 and where it lies, None if none are wanted.

    An archive that was fetched once is taken again: a release does not change.
    Raises UserFault for a path that is neither an archive nor a folder, WorldFault when an address cannot be reached.
    """
    if asked is None:
        return None
    if "://" in asked:
        return _address(store, asked, certificate, advance)
    local = Path(asked)
    if local.is_dir():
        return _pack(store, local)
    if not local.is_file():
        remedy = "--examples with a folder, a .tar.gz or an address; or --examples none"
        raise UserFault("no such file or folder", asked, remedy)
    return _kept(store, fetch(store, str(local.absolute()), None, NAME, None, advance), asked)


def _address(store: Store, url: str, certificate: str | None, advance: Advance) -> tuple[str, Path]:
    known = store.record("archives", key_of(url))
    if known and store.whole(known, NAME):
        return _kept(store, known, url)
    try:
        digest = fetch(store, url, None, NAME, certificate, advance)
    except WorldFault as error:
        remedy = "--examples PATH with a copy of the archive, or --examples none"
        raise WorldFault("cannot download the examples", error.value, remedy) from error
    found = _kept(store, digest, url)
    store.write_record("archives", key_of(url), digest)
    return found


def _kept(store: Store, digest: str, asked: str) -> tuple[str, Path]:
    path = store.place(digest, NAME)
    if next(members(path), None) is None:
        remedy = "an archive with examples/pytorch in it, as a release of transformers has"
        raise UserFault("no examples in that archive", asked, remedy)
    return digest, path


def _pack(store: Store, folder: Path) -> tuple[str, Path]:
    """Make an archive of a folder: sorted, without times and owners, so that equal folders are equal archives."""
    with store.aside() as aside:
        with tarfile.open(aside, "w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(
                path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
            ):
                info = tarfile.TarInfo("transformers/" + path.relative_to(folder).as_posix())
                info.size, info.mode = path.stat().st_size, 0o755 if os.access(path, os.X_OK) else 0o644
                with path.open("rb") as file:
                    tar.addfile(info, file)
        digest = sha256(aside)
        store.keep(aside, digest, NAME)
    return _kept(store, digest, str(folder))


def members(path: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yield what is taken of an archive as (path below the top folder, bytes, mode)."""
    try:
        with tarfile.open(path) as tar:
            for info in tar:
                name = posixpath.normpath(info.name).partition("/")[2]
                if info.isfile() and name.startswith(TAKEN) and not name.startswith("../"):
                    file = tar.extractfile(info)
                    yield name, file.read() if file else b"", 0o755 if info.mode & 0o111 else 0o644
    except (tarfile.TarError, EOFError, zlib.error) as error:
        remedy = "fetch it again: it is cut short or not a tar archive"
        raise WorldFault("cannot read the archive of the examples", f"{path} ({error})", remedy) from error


def write(layer: Layer, path: Path) -> None:
    """Lay the examples out below /workspace/transformers, where the Hugging Face guide has them."""
    for name, data, mode in sorted(members(path)):
        layer.file(f"{PLACE}/{name}", data, mode)
