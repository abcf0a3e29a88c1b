"""The example scripts of transformers, from a release archive, a directory of the same layout, or an address."""

from __future__ import annotations

import os
import re
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

from images.foreign import tars
from images.foreign.tars import ArchiveFile
from images.host.errors import Fault, UserFault, WorldFault
from images.lock.lock import EXAMPLES
from images.oci.layer_writer import LayerWriter
from images.pip_config import Sources
from images.plan.planner import ARCHIVE
from images.store.blobs import sha256
from images.store.download import Advance, download_file
from images.store.store import Store, key_of

PLACE = "workspace/transformers"
# The rest of the archive is the library itself, which comes as a wheel, with its tests and documentation.
TAKEN = ("examples/", "LICENSE", "README.md")
SCRIPTS = "examples/pytorch"
# Where a release is, which does not change; any other address may have something else tomorrow, as that of a branch.
RELEASE = re.compile(r"[0-9][0-9A-Za-z.]*".join(map(re.escape, ARCHIVE.split("{version}"))))


def fetch_examples(store: Store, place: str, sources: Sources, advance: Advance) -> tuple[str, Path]:
    """Bring the examples into the store as an archive; return its sha256 and its path.

    The archive of a release that was fetched once is taken again; any other address is asked each time.
    Raises UserFault for a path that is neither an archive nor a directory, WorldFault where an address is out of reach.
    """
    if "://" in place:
        return _download(store, place, sources, advance)
    local = Path(place)
    if local.is_dir():
        return _pack_archive(store, local)
    if not local.is_file():
        remedy = "--examples with a directory, a .tar.gz or an address; or --examples none"
        raise UserFault("no such file or directory", place, remedy)
    return _check_archive(
        store, download_file(store, local.absolute().as_uri(), None, EXAMPLES, sources, advance), place
    )


def _download(store: Store, url: str, sources: Sources, advance: Advance) -> tuple[str, Path]:
    known = store.record("archives", key_of(url)) if RELEASE.fullmatch(url) else None
    if known and store.verified(known, EXAMPLES):
        return _check_archive(store, known, url)
    try:
        digest = download_file(store, url, None, EXAMPLES, sources, advance)
    except WorldFault as error:
        remedy = "--examples PATH with a copy of the archive, or --examples none"
        raise WorldFault("cannot download the examples", error.value, remedy) from error
    kept = _check_archive(store, digest, url)
    store.write_record("archives", key_of(url), digest)
    return kept


def _check_archive(store: Store, digest: str, url: str) -> tuple[str, Path]:
    path = store.place(digest, EXAMPLES)
    try:
        if not any(one.path.startswith(f"{SCRIPTS}/") and one.path.endswith(".py") for one in members(path)):
            remedy = "what has examples/pytorch in it, as a release of transformers; or --examples none"
            raise UserFault("no examples there", url, remedy)
    except Fault:
        store.drop(path)  # whatever else it is, nothing will ask for it
        raise
    return digest, path


def _pack_archive(store: Store, directory: Path) -> tuple[str, Path]:
    """Make an archive of what is taken of a directory.

    It is sorted, without times and owners, so that equal examples have one sha256, in a clone of git too.
    """
    with store.temporary() as aside:
        with tarfile.open(aside, "w", format=tarfile.PAX_FORMAT) as tar:
            for name in _taken(directory):
                _add_file(tar, directory / name, f"transformers/{name}")
        digest = sha256(aside)
        store.keep(aside, digest, EXAMPLES)
    return _check_archive(store, digest, str(directory))


def _add_file(tar: tarfile.TarFile, path: Path, name: str) -> None:
    info = tarfile.TarInfo(name)
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        info.size, info.mode = about.st_size, 0o755 if about.st_mode & 0o111 else 0o644
        tar.addfile(info, file)


def _taken(directory: Path) -> list[Path]:
    """List the files of a directory that are taken, by their paths in it; no other directory is opened.

    Links are left out, as in archives.
    """
    paths: list[Path] = []
    for place, directories, files in os.walk(directory, onerror=_raise):
        below = Path(place).relative_to(directory)
        directories[:] = [name for name in directories if name != "__pycache__" and _is_taken(below / name / "_")]
        paths += (below / name for name in files if _is_taken(below / name))
    return sorted(name for name in paths if stat.S_ISREG((directory / name).lstat().st_mode))


def _is_taken(path: Path) -> bool:
    return path.as_posix().startswith(TAKEN)


def _raise(error: OSError) -> None:
    raise error


def members(path: Path) -> Iterator[ArchiveFile]:
    """Yield what is taken of an archive, by its path below the top directory, or from the top where that is taken.

    Raises WorldFault when the archive cannot be read, or holds a name that leads elsewhere.
    """
    try:
        yield from tars.read_files(path, lambda name: name.startswith(TAKEN), bare=True)
    except ValueError as error:
        remedy = "another copy: it is cut short, changed or not a tar archive, or has a name that no image can have"
        raise WorldFault("cannot read the archive of the examples", f"{path} ({error})", remedy) from error


def write_examples(layer: LayerWriter, path: Path) -> None:
    """Write the examples below /workspace/transformers, where the Hugging Face guide has them.

    Of two files at one path the later one is taken, as tar does.
    """
    layer.source = path.name
    last = {member.path: member for member in members(path)}
    for name, data, mode in sorted(last.values()):
        layer.file(f"{PLACE}/{name}", data, mode)
