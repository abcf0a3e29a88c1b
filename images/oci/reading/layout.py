"""Images read from a directory or a tar: an OCI layout, or what `docker save` writes."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from images.foreign import bounds, tars
from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.oci import manifest
from images.oci.manifest import NAME, SUBJECT, TAG, encode
from images.oci.reading import saved
from images.oci.reading.files import AGAIN, REMEDY, Files, OnDisk, listed
from images.oci.reference import Archive, Directory, full

INDEX = "index.json"
SEVERAL = "oci:DIRECTORY:TAG, or oci:DIRECTORY:NAME:TAG"


def in_directory(reference: Directory, store: Store) -> OnDisk:
    """Open an OCI layout in a directory.

    Raises UserFault when there is none.
    """
    root, tag = _split(reference)
    if not (root / INDEX).is_file():
        raise UserFault("that is not an OCI layout", f"{reference} (no {INDEX})", REMEDY)

    def open_(path: str) -> IO[bytes]:
        if not (root / path).is_file():  # a pipe would be waited for, and a device read without end
            raise FileNotFoundError(path)
        return (root / path).open("rb")

    return _layout(Files(str(reference), REMEDY, open_), tag, store)


def _split(reference: Directory) -> tuple[Path, str | None]:
    """Return the directory of a layout, and which image in it is meant: by its tag, or by NAME:TAG."""
    whole, (path, _, name) = Path(reference.path), reference.path.partition(":")
    if name and reference.tag and not (whole / INDEX).is_file() and (Path(path) / INDEX).is_file():
        return Path(path), f"{name}:{reference.tag}"
    return whole, reference.tag


@contextmanager
def in_archive(reference: Archive, store: Store) -> Iterator[OnDisk]:
    """Open an archive; where it is both, the OCI layout counts, since its blobs have digests.

    Raises UserFault when it is not a tar that can be read, WorldFault when it is cut short.
    """
    name = str(reference)
    try:
        tar = tars.open_file(Path(reference.path), "r")  # what goes wrong later is another matter
        members = _members(tar, bounds.LAYER.of(Path(reference.path).stat().st_size))
    except (tars.CutShort, EOFError) as error:  # EOFError: it is compressed
        raise WorldFault("the archive is cut short", name, AGAIN) from error
    except tars.CONTENT as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else "not a whole tar"
        raise UserFault("cannot read the archive", f"{name} ({said})", REMEDY) from error

    def open_(path: str) -> IO[bytes]:
        try:
            file = tar.extractfile(members[tars.below_root(path)])
        except RecursionError as error:  # it follows a link to itself
            raise KeyError(path) from error
        if file is None:
            raise KeyError(path)
        return file

    with tar:
        if INDEX in members:
            files = Files(name, REMEDY, open_)
            lists = [path for path in ("manifest.json", "repositories") if path in members]
            agrees = partial(saved.require_same, files) if lists else lambda _: None
            yield replace(_layout(files, None, store), check=agrees)
        else:
            yield saved.read(Files(name, saved.AGAIN, open_), store)


def _layout(files: Files, tag: str | None, store: Store) -> OnDisk:
    """Return what index.json describes, with blobs by their digests (OCI image specification 1.1, "Image Layout")."""
    return OnDisk(files, store, partial(_manifest, files, tag), _place)


def _manifest(files: Files, tag: str | None, digest: str | None) -> bytes:
    """Read a manifest by digest, or for None the part of the index that the tag or NAME:TAG means."""
    if digest is not None:
        return files.read(_place(digest))
    index = manifest.read(files.read(INDEX), files.name)
    entries = _entries(index)
    names = [_names(entry) for entry in entries]
    wanted = {tag, full(tag)} if tag and ":" in tag else {tag}
    meant = [(entry, name) for entry, name in zip(entries, names, strict=True) if tag is None or wanted & {*name}]
    if not meant:
        has = listed(name for name, _ in names) or "none"
        raise UserFault("there is no such image", f"{files.name} (it has {has})", REMEDY)
    if len({name for _, name in meant}) > 1 and len({str(entry.get("digest")) for entry, _ in meant}) > 1:
        has = listed(name for _, (name, _) in meant)
        raise UserFault("there are several images", f"{files.name} ({has})", SEVERAL)
    return encode({**index, "manifests": [entry for entry, _ in meant]})


def _place(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _members(tar: tarfile.TarFile, most: int) -> dict[str, tarfile.TarInfo]:
    """List a tar, which may unpack to `most` bytes; closed again when it is damaged."""
    try:
        found = tars.listed(tar, most)
        tars.refuse_unusual(tar, found)
        return found
    except BaseException:
        tar.close()
        raise


def _entries(index: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of an index that are images; containerd puts signatures beside them, without names."""
    found = index.get("manifests")
    entries = [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return [entry for entry in entries if SUBJECT not in _annotations(entry) or any(_names(entry))]


def _annotations(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = entry.get("annotations")
    return found if isinstance(found, dict) else {}


def _names(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of an entry of an index, and its tag alone."""
    annotations = _annotations(entry)
    tag = str(annotations.get(TAG, ""))
    return str(annotations.get(NAME, tag)), tag
