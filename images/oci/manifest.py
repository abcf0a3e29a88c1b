"""The manifest of an image and its descriptors, read and written, and what it has in common with an index (OCI 1.1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from images.foreign import documents
from images.host import limits
from images.host.errors import UserFault, WorldFault
from images.oci.reference import DIGEST

PUBLISHED = ("zstd", "gzip")  # how layers that we write may be compressed in a layout and in a registry

OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
MANIFESTS = (f"{OCI}.manifest.v1+json", f"{DOCKER}.distribution.manifest.v2+json")
INDEXES = (f"{OCI}.index.v1+json", f"{DOCKER}.distribution.manifest.list.v2+json")
CONFIGS = (f"{OCI}.config.v1+json", f"{DOCKER}.container.image.v1+json")
LAYERS = (
    *(f"{OCI}.layer.v1.tar{suffix}" for suffix in ("", "+gzip", "+zstd")),
    *(f"{DOCKER}.image.rootfs.diff.tar{suffix}" for suffix in ("", ".gzip")),  # Docker has none for zstd
)


def layer_type(compression: str) -> str:
    """Return the type of a layer that is compressed in this way: none, gzip or zstd."""
    return f"{OCI}.layer.v1.tar" + ("" if compression == "none" else f"+{compression}")


# Descriptors: how manifests and indexes name a blob (OCI image specification 1.1, "Content Descriptors"), as JSON.

DESCRIPTOR_KEYS = ("mediaType", "digest", "size")
DAMAGED = "another image, or ask whoever pushed it: this one cannot be read by any engine either"


@dataclass(frozen=True)
class Descriptor:
    """A blob that a manifest names: digest (`sha256:` and hexadecimal) and size in bytes."""

    media_type: str
    digest: str
    size: int

    @property
    def sha256(self) -> str:
        return self.digest.removeprefix("sha256:")


def list_of(raw: Mapping[str, Any], key: str, name: str) -> list[object]:
    value = raw.get(key)
    if not isinstance(value, list):
        raise WorldFault("a manifest is damaged", f"{name} (no list of {key})", DAMAGED)
    return value


def mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WorldFault("a manifest is damaged", f"{name} ({str(value)[:40]!r} in place of an object)", DAMAGED)
    return value


def parse_descriptor(value: object, name: str) -> Descriptor:
    entry = mapping(value, name)
    media_type, digest, size = (entry.get(key) for key in DESCRIPTOR_KEYS)
    is_digest = isinstance(digest, str) and DIGEST.fullmatch(digest)
    if isinstance(media_type, str) and is_digest and type(size) is int and size >= 0:
        return Descriptor(media_type, str(digest), size)
    stated = {key: entry.get(key) for key in DESCRIPTOR_KEYS}
    raise WorldFault("a manifest is damaged", f"{name} ({str(stated)[:200]})", DAMAGED)


def descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    """Return a content descriptor as an object of JSON; `size` is in bytes."""
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


# The manifest of an image, read and written, and what it has in common with an index (OCI image specification 1.1).

MOST_LAYERS = 500  # what overlayfs stacks at most: Linux, fs/overlayfs/params.h, OVL_MAX_STACK
LIMIT = limits.MANIFEST.most

# The keys of manifests and indexes, and of what is in them.
KEYS = ("schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations",
        "digest", "size", "urls", "data", "platform", "os", "architecture", "variant")  # fmt: skip
ON_THE_WAY = "run it again; if it stays so, a proxy or the registry itself serves damaged data"


@dataclass(frozen=True)
class Manifest:
    """An image for one platform: its own digest, its configuration, its layers from the lowest."""

    digest: str
    config: Descriptor
    layers: tuple[Descriptor, ...]


def require_digest(data: bytes, digest: str, name: str) -> None:
    """Raise WorldFault when bytes are not what a digest says."""
    if (got := digest_of(data)) != digest:
        raise WorldFault("a manifest has another digest than expected", f"{name}: {got}, not {digest}", ON_THE_WAY)


def parse_document(data: bytes, name: str) -> dict[str, Any]:
    """Read a manifest or an index.

    Raises WorldFault when it is neither.
    """
    try:
        raw = documents.parse_json(data)
    except ValueError as error:
        start = data[:40].decode(errors="replace")
        raise WorldFault("a manifest is not JSON", f"{name} (it begins {start!r})", "check the address") from error
    if not isinstance(raw, dict):
        raise WorldFault("a manifest is not a JSON object", name, DAMAGED)
    kinds = MANIFESTS if "manifests" not in raw else INDEXES
    is_other = "mediaType" in raw and raw["mediaType"] not in kinds
    if is_other or {"manifests", "layers"} <= raw.keys():
        raise WorldFault(
            "a manifest is of two kinds", f"{name} (mediaType {str(raw.get('mediaType'))[:80]!r})", DAMAGED
        )
    if wrong := documents.find_misspelled(raw, KEYS):
        raise WorldFault("a manifest has a key that engines read as another one", f"{name} ({wrong[:80]!r})", DAMAGED)
    return raw


def parse_manifest(raw: Mapping[str, Any], digest: str, name: str) -> Manifest:
    """Read the manifest of an image.

    Raises UserFault when it is something else than a container image, WorldFault when it is damaged.
    """
    config = parse_descriptor(raw.get("config"), name)
    layers = tuple(parse_descriptor(entry, name) for entry in list_of(raw, "layers", name))
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


def list_unusual(data: bytes, annotations: Mapping[str, str]) -> list[str]:
    """Return the fields of a manifest that `write_manifest` does not write with these annotations, such as others."""
    raw = parse_document(data, "manifest")
    stated = raw.get("annotations")
    is_ours = isinstance(stated, dict) and bool(stated) and stated.items() <= annotations.items()
    usual = ("schemaVersion", "mediaType", "config", "layers", *(("annotations",) if is_ours else ()))
    named = {"config": raw["config"], **{f"layers[{number}]": row for number, row in enumerate(raw["layers"])}}
    within = [f"{name}.{key}" for name, row in named.items() for key in row if key not in DESCRIPTOR_KEYS]
    return [*(key for key in raw if key not in usual), *within]


def write_manifest(
    config: bytes, layers: Sequence[tuple[str, int, str]], annotations: Mapping[str, str] | None = None
) -> bytes:
    """Write the manifest over layers given as (sha256 in hexadecimal, bytes, compression: none, gzip or zstd)."""
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFESTS[0],
            "config": described(CONFIGS[0], config),
            "layers": [
                descriptor(layer_type(compression), f"sha256:{digest}", size) for digest, size, compression in layers
            ],
            **({"annotations": dict(sorted(annotations.items()))} if annotations else {}),
        }
    )
