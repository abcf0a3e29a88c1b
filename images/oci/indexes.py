"""Indexes: of an image for several platforms, of a layout, lists of attachments; and which of their images is meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from images.foreign import documents
from images.host.errors import UserFault, WorldFault
from images.oci.manifest import (
    DAMAGED,
    INDEXES,
    MANIFESTS,
    Descriptor,
    Manifest,
    described,
    digest_of,
    encode,
    list_of,
    mapping,
    parse_descriptor,
    parse_document,
    parse_manifest,
    require_digest,
)
from images.oci.reference import full_name
from images.platforms import PLATFORMS, Platform, platform_of

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
    system = {"architecture": platform.architecture, "os": platform.os}
    return {**described(MANIFESTS[0], manifest), "platform": system}


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


# Which image of an index is meant: the one for a platform, or each of them.

UNKNOWN = "unknown/unknown"  # what attestations are for, which are no images
NESTED = 3  # an index may hold an index; nobody nests deeper


# Reads a manifest or an index by its digest, or for None the one that a name means.
ReadManifest = Callable[[str | None], bytes]


def find_manifest(read: ReadManifest, name: str, platform: Platform) -> Manifest:
    """Find the manifest of a name for a platform.

    Raises UserFault when there is none for this platform or it is no image, WorldFault when it is damaged.
    """
    data = read(None)
    for _ in range(NESTED):
        raw = parse_document(data, name)
        if "manifests" not in raw:
            return parse_manifest(raw, digest_of(data), name)
        data = _read_checked(read, choose_entry(list_of(raw, "manifests", name), name, platform).digest, name)
    raise WorldFault("an index holds an index, again and again", name, DAMAGED)


def find_manifests(
    read: ReadManifest, name: str, wanted: Platform | None
) -> tuple[list[str], list[tuple[Platform | None, Manifest]]]:
    """Find the images of a name, all or the one for a platform, each with the platform that its index states.

    The first list has the digests of the indexes that lead to them, and of the image where it is the only one. Raises
    UserFault for an index with anything beside one image for each platform: engines choose by rules of their own.
    """
    data, platform = read(None), wanted
    digests = list[str]()
    for _ in range(NESTED):
        raw = parse_document(data, name)
        digests.append(digest_of(data))
        if "manifests" not in raw:
            return digests, [(platform, parse_manifest(raw, digests[-1], name))]
        entries = list_of(raw, "manifests", name)
        if wanted:
            choose_entry(entries, name, wanted)
        listed = {(parse_descriptor(entry, name).digest, _system(entry, name)) for entry in entries}
        if len(listed) != 1:
            return digests, [row for row in _list_images(read, raw, name) if wanted in (None, row[0])]
        [(digest, system)] = listed
        data, platform = _read_checked(read, digest, name), wanted or platform_of("/".join(system))
    raise WorldFault("an index holds an index, again and again", name, DAMAGED)


def _list_images(read: ReadManifest, raw: Mapping[str, Any], name: str) -> list[tuple[Platform | None, Manifest]]:
    """Return the images of an index that has one for each of its platforms, and nothing else.

    What is for no platform, as an attestation of BuildKit, is run by whoever asks for unknown/unknown.
    """
    free = {str(known): known for known in PLATFORMS}
    odd = [*(raw.keys() - {"schemaVersion", "mediaType", "manifests"})]
    images: list[tuple[Platform | None, Manifest]] = []
    for entry in list_of(raw, "manifests", name):
        platform, digest = free.pop("/".join(_system(entry, name)), None), parse_descriptor(entry, name).digest
        data = _read_checked(read, digest, name) if platform else b""
        if platform and entry == entry_of(data, platform):
            images.append((platform, parse_manifest(parse_document(data, name), digest, name)))
        else:
            odd.append(digest)
    if odd or not images:
        fact = "an index has something else than one image for each platform"
        raise UserFault(fact, f"{name} ({', '.join(sorted(odd)) or 'nothing'})", "NAME@sha256:... of the one you mean")
    return images


def _read_checked(read: ReadManifest, digest: str, name: str) -> bytes:
    data = read(digest)
    require_digest(data, digest, name)
    return data


def choose_entry(entries: Sequence[object], name: str, platform: Platform) -> Descriptor:
    """Choose the entry of an index for a platform, by preference the one for every such processor.

    An entry without a platform fits each. Raises UserFault when none fits.
    """
    fitting: list[tuple[bool, Descriptor]] = []
    for entry in entries:
        descriptor, stated = parse_descriptor(entry, name), _read_platform(entry, name)
        system = (stated.get("os", platform.os), stated.get("architecture", platform.architecture))
        if system == (platform.os, platform.architecture) and descriptor.media_type in (*MANIFESTS, *INDEXES):
            fitting.append((bool(stated.get("variant")), descriptor))
    if fitting:
        return min(fitting, key=lambda pair: pair[0])[1]
    systems = dict.fromkeys("/".join(_system(entry, name)) for entry in entries)
    offered = ", ".join(other for other in systems if other != UNKNOWN) or "nothing"
    others = [f"--platform {other}" for other in PLATFORMS if str(other) in systems]
    remedy = " or ".join([f"an image for {platform}", *others])
    raise UserFault(f"no image for {platform}", f"{name} (it has {offered})", remedy)


def _read_platform(entry: object, name: str) -> Mapping[str, Any]:
    return mapping(mapping(entry, name).get("platform") or {}, name)


def _system(entry: object, name: str) -> tuple[str, str]:
    """Return the operating system and the architecture of an entry, empty where it does not say them."""
    stated = _read_platform(entry, name)
    return str(stated.get("os") or ""), str(stated.get("architecture") or "")
