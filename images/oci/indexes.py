"""Indexes: of an image for several platforms, of a layout, and lists of what is attached to an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from images.foreign import documents
from images.oci.descriptors import described, encode, list_of, mapping, parse_descriptor
from images.oci.manifest import parse_document
from images.oci.media_types import INDEXES, MANIFESTS
from images.oci.reference import full_name
from images.platforms import Platform

# How an index names its images: the tag ("Pre-Defined Annotation Keys"), and the whole name, which containerd adds.
# Docker on containerd looks for a name with its host alone, and so never finds an image that was loaded without one.
TAG = "org.opencontainers.image.ref.name"
NAME = "io.containerd.image.name"
LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'  # the content of the file oci-layout ("Image Layout")
SUBJECT = "io.containerd.manifest.subject"  # the image that something is about, such as its signature


def published(images: Sequence[tuple[bytes, Platform]]) -> bytes:
    """Return what the name of an image leads to in a registry: its manifest, or an index of those for each platform."""
    return images[0][0] if len(images) == 1 else write_list([entry_of(*image) for image in images])


def write_index(images: Sequence[tuple[bytes, Platform]], tags: Sequence[str], before: bytes = b"") -> bytes:
    """Write the index of a layout with an image in it: an entry for each of its names, after those of other names.

    `images` are its manifests, one for each platform. `before` is the index that is there already; one that cannot be
    read counts as none.
    """
    entry = entry_of(*images[0]) if len(images) == 1 else described(INDEXES[0], published(images))
    entries = [{**entry, "annotations": {TAG: tag.rpartition(":")[2], NAME: full_name(tag)}} for tag in tags]
    replaced = {*tags, *map(full_name, tags)}  # skopeo writes a name as it is typed
    others = [other for other in _entries_before(before) if entry_names(other)[0] not in replaced]
    return write_list([*others, *entries])


def entry_of(manifest: bytes, platform: Platform) -> dict[str, Any]:
    return {**described(MANIFESTS[0], manifest), "platform": _system_of(platform)}


def _system_of(platform: Platform) -> dict[str, str]:
    return {"architecture": platform.architecture, "os": platform.os}


def write_list(entries: Sequence[Mapping[str, Any]]) -> bytes:
    """Write an index of entries as they are."""
    return encode({"schemaVersion": 2, "mediaType": INDEXES[0], "manifests": entries})


def read_list(data: bytes, name: str) -> list[dict[str, Any]]:
    """Return the entries of an index as they are.

    Raises WorldFault when it is none, or is damaged.
    """
    entries = list_of(parse_document(data, name), "manifests", name)
    for entry in entries:
        parse_descriptor(entry, name)
    return [{**mapping(entry, name)} for entry in entries]


def _entries_before(index: bytes) -> list[dict[str, Any]]:
    try:
        return entries_of(documents.parse_json(index))
    except ValueError:
        return []


def entries_of(index: object) -> list[dict[str, Any]]:
    """Return what in an index can be an entry; none of what is no index."""
    entries = index.get("manifests") if isinstance(index, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def annotations_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the annotations of an entry of an index."""
    annotations = entry.get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def entry_names(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the whole name of an entry of an index, or where there is none its tag; and its tag alone."""
    annotations = annotations_of(entry)
    tag = str(annotations.get(TAG, ""))
    return str(annotations.get(NAME, tag)), tag
