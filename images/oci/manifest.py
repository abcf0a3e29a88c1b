"""The manifest of an image, read and written, and what it has in common with an index (OCI image specification 1.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from images.foreign import documents
from images.host import limits
from images.host.errors import UserFault, WorldFault
from images.oci import descriptors
from images.oci.descriptors import (
    DAMAGED,
    Descriptor,
    described,
    descriptor,
    digest_of,
    encode,
    list_of,
    parse_descriptor,
)
from images.oci.media_types import CONFIGS, INDEXES, LAYERS, MANIFESTS, layer_type

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
    if raw.get("mediaType", kinds[0]) not in kinds or {"manifests", "layers"} <= raw.keys():
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


def list_unusual(data: bytes) -> list[str]:
    """Return the fields of a manifest that `write_manifest` never writes, such as annotations or urls of layers."""
    raw = parse_document(data, "manifest")
    named = {"config": raw["config"], **{f"layers[{number}]": row for number, row in enumerate(raw["layers"])}}
    within = [f"{name}.{key}" for name, row in named.items() for key in row if key not in descriptors.KEYS]
    return [*(key for key in raw if key not in ("schemaVersion", "mediaType", "config", "layers")), *within]


def write_manifest(config: bytes, layers: Sequence[tuple[str, int, str]]) -> bytes:
    """Write the manifest over layers given as (sha256 in hexadecimal, bytes, compression: none, gzip or zstd)."""
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFESTS[0],
            "config": described(CONFIGS[0], config),
            "layers": [
                descriptor(layer_type(compression), f"sha256:{digest}", size) for digest, size, compression in layers
            ],
        }
    )
