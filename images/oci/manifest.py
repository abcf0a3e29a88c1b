"""Manifests and indexes, read and written (OCI image specification 1.1, Docker schema 2)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from images.foreign import documents
from images.host import limits
from images.host.errors import UserFault, WorldFault
from images.model import Descriptor, Manifest
from images.oci.reference import DIGEST, full
from images.platforms import PLATFORMS, Platform, platform_of

MOST_LAYERS = 500  # what overlayfs stacks at most: Linux, fs/overlayfs/params.h, OVL_MAX_STACK
LIMIT = limits.MANIFEST.most

OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
MANIFESTS = (f"{OCI}.manifest.v1+json", f"{DOCKER}.distribution.manifest.v2+json")
INDEXES = (f"{OCI}.index.v1+json", f"{DOCKER}.distribution.manifest.list.v2+json")
CONFIGS = (f"{OCI}.config.v1+json", f"{DOCKER}.container.image.v1+json")
LAYERS = (
    *(f"{OCI}.layer.v1.tar{suffix}" for suffix in ("", "+gzip", "+zstd")),
    *(f"{DOCKER}.image.rootfs.diff.tar{suffix}" for suffix in ("", ".gzip")),  # Docker has none for zstd
)

LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'  # the content of the file oci-layout ("Image Layout")

# How an index names its images: the tag ("Pre-Defined Annotation Keys"), and the whole name, which containerd adds.
# Docker on containerd looks for a name with its host alone, and so never finds an image that was loaded without one.
TAG = "org.opencontainers.image.ref.name"
NAME = "io.containerd.image.name"
SUBJECT = "io.containerd.manifest.subject"  # the image that something is about, such as its signature

# The keys of manifests and indexes, and of what is in them.
KEYS = ("schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations",
        "digest", "size", "urls", "data", "platform", "os", "architecture", "variant")  # fmt: skip
DESCRIPTOR = ("mediaType", "digest", "size")
UNKNOWN = "unknown/unknown"  # what attestations are for, which are no images
NESTED = 3  # an index may hold an index; nobody nests deeper
ON_THE_WAY = "run it again; if it stays so, a proxy or the registry itself serves damaged data"
DAMAGED = "another image, or ask whoever pushed it: this one cannot be read by any engine either"


def resolve(get: Callable[[str | None], bytes], name: str, platform: Platform) -> Manifest:
    """Find the manifest for a platform; `get` brings one by its digest, or for None the one that the name means.

    Raises UserFault when there is none for this platform or it is no image, WorldFault when it is damaged.
    """
    data = get(None)
    for _ in range(NESTED):
        raw = read(data, name)
        if "manifests" not in raw:
            return parse(raw, digest_of(data), name)
        data = _checked(get, choose(_list(raw, "manifests", name), name, platform).digest, name)
    raise WorldFault("an index holds an index, again and again", name, DAMAGED)


def every(
    get: Callable[[str | None], bytes], name: str, asked: Platform | None
) -> tuple[list[str], list[tuple[Platform | None, Manifest]]]:
    """Find the images of a name, or the one for a platform, with what an index says that each is for.

    `get` is that of `resolve`. The digests are those of the indexes on the way, and of the only image. Raises UserFault
    where an engine might run something else: for an index of several that `published` never writes.
    """
    data, platform = get(None), asked
    way = list[str]()
    for _ in range(NESTED):
        raw = read(data, name)
        way.append(digest_of(data))
        if "manifests" not in raw:
            return way, [(platform, parse(raw, way[-1], name))]
        entries = _list(raw, "manifests", name)
        if asked:
            choose(entries, name, asked)
        listed = {(_descriptor(entry, name).digest, _system(entry, name)) for entry in entries}
        if len(listed) != 1:
            return way, [each for each in _each(get, raw, name) if asked in (None, each[0])]
        [(digest, system)] = listed
        data, platform = _checked(get, digest, name), asked or platform_of("/".join(system))
    raise WorldFault("an index holds an index, again and again", name, DAMAGED)


def _each(
    get: Callable[[str | None], bytes], raw: Mapping[str, Any], name: str
) -> list[tuple[Platform | None, Manifest]]:
    """Return the images of an index that has one for each of its platforms, and nothing else.

    What is for no platform, as an attestation of BuildKit, is run by whoever asks for unknown/unknown.
    """
    free = {str(each): each for each in PLATFORMS}
    odd = [*(raw.keys() - {"schemaVersion", "mediaType", "manifests"})]
    found = list[tuple[Platform | None, Manifest]]()
    for entry in _list(raw, "manifests", name):
        platform, digest = free.pop("/".join(_system(entry, name)), None), _descriptor(entry, name).digest
        data = _checked(get, digest, name) if platform else b""
        if platform and entry == _entry_of(data, platform):
            found.append((platform, parse(read(data, name), digest, name)))
        else:
            odd.append(digest)
    if odd or not found:
        fact = "an index has something else than one image for each platform"
        raise UserFault(fact, f"{name} ({', '.join(sorted(odd)) or 'nothing'})", "NAME@sha256:... of the one you mean")
    return found


def _checked(get: Callable[[str | None], bytes], digest: str, name: str) -> bytes:
    data = get(digest)
    check(data, digest, name)
    return data


def check(data: bytes, digest: str, name: str) -> None:
    """Raise WorldFault when bytes are not what a digest says."""
    if (got := digest_of(data)) != digest:
        raise WorldFault("a manifest has another digest than expected", f"{name}: {got}, not {digest}", ON_THE_WAY)


def read(data: bytes, name: str) -> dict[str, Any]:
    """Read a manifest or an index.

    Raises WorldFault when it is neither.
    """
    try:
        raw = documents.parse(data)
    except ValueError as error:
        start = data[:40].decode(errors="replace")
        raise WorldFault("a manifest is not JSON", f"{name} (it begins {start!r})", "check the address") from error
    if not isinstance(raw, dict):
        raise WorldFault("a manifest is not a JSON object", name, DAMAGED)
    kinds = MANIFESTS if "manifests" not in raw else INDEXES
    if raw.get("mediaType", kinds[0]) not in kinds or {"manifests", "layers"} <= raw.keys():
        raise WorldFault(
            "a manifest is of two kinds", f"{name} (mediaType {str(raw.get('mediaType'))[:80]!r})", DAMAGED
        )
    if wrong := documents.misspelled(raw, KEYS):
        raise WorldFault("a manifest has a key that engines read as another one", f"{name} ({wrong[:80]!r})", DAMAGED)
    return raw


def choose(entries: Sequence[object], name: str, platform: Platform) -> Descriptor:
    """Choose the entry of an index for a platform, by preference the one for every such processor.

    One that does not say what it is for is for any. Raises UserFault when there is none.
    """
    found: list[tuple[bool, Descriptor]] = []
    for entry in entries:
        descriptor, said = _descriptor(entry, name), _platform(entry, name)
        system = (said.get("os", platform.os), said.get("architecture", platform.architecture))
        if system == (platform.os, platform.architecture) and descriptor.media_type in (*MANIFESTS, *INDEXES):
            found.append((bool(said.get("variant")), descriptor))
    if found:
        return min(found, key=lambda pair: pair[0])[1]
    systems = dict.fromkeys("/".join(_system(entry, name)) for entry in entries)
    offered = ", ".join(each for each in systems if each != UNKNOWN) or "nothing"
    others = [f"--platform {each}" for each in PLATFORMS if str(each) in systems]
    remedy = " or ".join([f"an image for {platform}", *others])
    raise UserFault(f"no image for {platform}", f"{name} (it has {offered})", remedy)


def _platform(entry: object, name: str) -> Mapping[str, Any]:
    return _mapping(_mapping(entry, name).get("platform") or {}, name)


def _system(entry: object, name: str) -> tuple[str, str]:
    """Return the operating system and the architecture of an entry, empty where it does not say them."""
    said = _platform(entry, name)
    return str(said.get("os") or ""), str(said.get("architecture") or "")


def parse(raw: Mapping[str, Any], digest: str, name: str) -> Manifest:
    """Read the manifest of an image.

    Raises UserFault when it is something else than a container image, WorldFault when it is damaged.
    """
    config = _descriptor(raw.get("config"), name)
    layers = tuple(_descriptor(entry, name) for entry in _list(raw, "layers", name))
    refuse_more(len(layers), name)
    for part, known in ((config, CONFIGS), *((layer, LAYERS) for layer in layers)):
        if part.media_type not in known:
            remedy = "a container image for Linux whose layers are all in the registry"
            raise UserFault("that is not an image that can be a base", f"{name} (holds {part.media_type})", remedy)
    return Manifest(digest, config, layers)


def refuse_more(layers: int, name: str) -> None:
    """Raise WorldFault for a number of layers that nobody can run."""
    if layers > MOST_LAYERS:
        raise WorldFault(f"an image has more than {MOST_LAYERS} layers", f"{name} ({layers})", DAMAGED)


def unusual(data: bytes) -> list[str]:
    """Return the fields of an image's manifest that `write` never writes, such as annotations or a layer's urls."""
    raw = read(data, "manifest")
    named = {"config": raw["config"], **{f"layers[{number}]": row for number, row in enumerate(raw["layers"])}}
    within = [f"{name}.{key}" for name, row in named.items() for key in row if key not in DESCRIPTOR]
    return [*(key for key in raw if key not in ("schemaVersion", "mediaType", "config", "layers")), *within]


def _list(raw: Mapping[str, Any], key: str, name: str) -> list[object]:
    value = raw.get(key)
    if not isinstance(value, list):
        raise WorldFault("a manifest is damaged", f"{name} (no list of {key})", DAMAGED)
    return value


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WorldFault("a manifest is damaged", f"{name} ({str(value)[:40]!r} in place of an object)", DAMAGED)
    return value


def _descriptor(value: object, name: str) -> Descriptor:
    entry = _mapping(value, name)
    media_type, digest, size = (entry.get(key) for key in DESCRIPTOR)
    is_digest = isinstance(digest, str) and DIGEST.fullmatch(digest)
    if isinstance(media_type, str) and is_digest and type(size) is int and size >= 0:
        return Descriptor(media_type, str(digest), size)
    said = {key: entry.get(key) for key in DESCRIPTOR}
    raise WorldFault("a manifest is damaged", f"{name} ({str(said)[:200]})", DAMAGED)


def write(config: bytes, layers: Sequence[tuple[str, int, str]]) -> bytes:
    """Write the manifest over layers given as (sha256 in hexadecimal, bytes, compression: none, gzip or zstd)."""
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFESTS[0],
            "config": described(CONFIGS[0], config),
            "layers": [
                descriptor(f"{OCI}.layer.v1.tar{_suffix(compression)}", f"sha256:{digest}", size)
                for digest, size, compression in layers
            ],
        }
    )


def _suffix(compression: str) -> str:
    return "" if compression == "none" else f"+{compression}"


def published(images: Sequence[tuple[bytes, Platform]]) -> bytes:
    """Return what the name of an image leads to in a registry: its manifest, or an index of those for each platform."""
    return images[0][0] if len(images) == 1 else write_list([_entry_of(*each) for each in images])


def write_index(images: Sequence[tuple[bytes, Platform]], tags: Sequence[str], before: bytes = b"") -> bytes:
    """Write the index of a layout with an image in it: an entry for each of its names, after those of other names.

    `images` are its manifests, one for each platform. `before` is the index that is there already; one that cannot be
    read counts as none.
    """
    entry = _entry_of(*images[0]) if len(images) == 1 else described(INDEXES[0], published(images))
    entries = [{**entry, "annotations": {TAG: tag.rpartition(":")[2], NAME: full(tag)}} for tag in tags]
    replaced = {*tags, *map(full, tags)}  # skopeo writes a name as it is typed
    others = [other for other in _entries_before(before) if names(other)[0] not in replaced]
    return write_list([*others, *entries])


def _entry_of(manifest: bytes, platform: Platform) -> dict[str, Any]:
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
    entries = _list(read(data, name), "manifests", name)
    for entry in entries:
        _descriptor(entry, name)
    return [{**_mapping(entry, name)} for entry in entries]


def _entries_before(index: bytes) -> list[dict[str, Any]]:
    try:
        return entries_of(documents.parse(index))
    except ValueError:
        return []


def entries_of(index: object) -> list[dict[str, Any]]:
    """Return what in an index can be an entry; none of what is no index."""
    found = index.get("manifests") if isinstance(index, dict) else None
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def annotations_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the annotations of an entry of an index."""
    found = entry.get("annotations")
    return found if isinstance(found, dict) else {}


def names(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return the whole name of an entry of an index, or where there is none its tag; and its tag alone."""
    annotations = annotations_of(entry)
    tag = str(annotations.get(TAG, ""))
    return str(annotations.get(NAME, tag)), tag


def write_docker(config: bytes, diff_ids: Sequence[str], tags: Sequence[str]) -> bytes:
    """Write the manifest.json that `docker load` of every age reads (Docker image specification v1.2)."""
    blobs = [f"blobs/sha256/{diff_id}" for diff_id in diff_ids]
    name = digest_of(config).removeprefix("sha256:")
    return encode([{"Config": f"blobs/sha256/{name}", "RepoTags": list(tags), "Layers": blobs}])


def descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    """Return a content descriptor as JSON has it."""
    return {"mediaType": media_type, "digest": digest, "size": size}


def described(media_type: str, data: bytes) -> dict[str, Any]:
    """Return the descriptor of bytes."""
    return descriptor(media_type, digest_of(data), len(data))


def digest_of(data: bytes) -> str:
    """Return the digest of bytes as the specification writes it: sha256:<hexadecimal>."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def encode(value: object) -> bytes:
    """Return the one JSON text of a value, so that equal images have equal digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
