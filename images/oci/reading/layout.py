"""Images read from a directory or a tar: an OCI layout, or what `docker save` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from images.foreign import files as foreign
from images.foreign.files import Files, open_tar
from images.host.errors import UserFault
from images.oci import indexes, manifest
from images.oci.descriptors import encode
from images.oci.indexes import SUBJECT
from images.oci.manifest import LIMIT
from images.oci.reading import saved
from images.oci.reading.files import REMEDY, OnDisk, list_tags
from images.oci.reference import ArchiveReference, LayoutReference
from images.store.blobs import Blobs

INDEX = "index.json"
SEVERAL = "oci:DIRECTORY:TAG, or a layout with only that image"


def open_layout(reference: LayoutReference, store: Blobs) -> OnDisk:
    """Open an OCI layout in a directory.

    Raises UserFault when there is none.
    """
    root = Path(reference.path)
    if not (root / INDEX).is_file():
        raise UserFault("that is not an OCI layout", f"{reference} (no {INDEX})", REMEDY)
    return _layout(foreign.open_directory(root, str(reference)), reference.tag, store)


def open_archive(reference: ArchiveReference, store: Blobs) -> OnDisk:
    """Open an archive; where it is both, the OCI layout counts, since its blobs have digests.

    Raises UserFault when it is not a tar that can be read, WorldFault when it is cut short.
    """
    files = open_tar(Path(reference.path), str(reference), REMEDY, plain=True)
    if not files.has(INDEX):
        return saved.open_saved(files, store)
    agrees = any(map(files.has, ("manifest.json", "repositories")))
    check = partial(saved.require_same, files) if agrees else lambda _: None
    return replace(_layout(files, None, store), check=check)


def _layout(files: Files, tag: str | None, store: Blobs) -> OnDisk:
    """Return what index.json describes, with blobs by their digests (OCI image specification 1.1, "Image Layout")."""
    return OnDisk(files, store, partial(_read_manifest, files, tag), _blob_path)


def _read_manifest(files: Files, tag: str | None, digest: str | None) -> bytes:
    """Read a manifest by digest, or for None the part of the index that the tag means."""
    if digest is not None:
        return files.read(_blob_path(digest), LIMIT)
    index = manifest.parse_document(files.read(INDEX, LIMIT), files.name)
    entries = [(entry, *indexes.entry_names(entry)) for entry in _entries(index)]
    meant = [(entry, name) for entry, name, its_tag in entries if tag in (None, its_tag)]
    if not meant:
        has = list_tags(name for _, name, _ in entries) or "none"
        raise UserFault("there is no such image", f"{files.name} (it has {has})", REMEDY)
    if len({name for _, name in meant}) > 1 and len({str(entry.get("digest")) for entry, _ in meant}) > 1:
        has = list_tags(name for _, name in meant)
        raise UserFault("there are several images", f"{files.name} ({has})", SEVERAL)
    return encode({**index, "manifests": [entry for entry, _ in meant]})


def _blob_path(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _entries(index: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of an index that are images; containerd puts signatures beside them, without names."""
    entries = indexes.entries_of(index)
    return [
        entry for entry in entries if SUBJECT not in indexes.annotations_of(entry) or any(indexes.entry_names(entry))
    ]
