"""A finished image: its names, its layers, its configuration, and the manifest that a registry has of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from images.host.store import Store
from images.model import Image, Layer
from images.oci import indexes, manifest
from images.oci.compression import packed
from images.oci.manifest import encode
from images.platforms import Platform


def config(
    layers: Sequence[Layer], platform: Platform, settings: Mapping[str, Any], created: str,
    below: Sequence[Mapping[str, Any]] = (),
) -> bytes:  # fmt: skip
    """Write the configuration; `settings` is the part that a container starts from, `created` an RFC 3339 time.

    `below` is the history of somebody else's base, which speaks for its layers.
    """
    own = [layer for layer in layers if layer.packed is None]
    history = [*below, *({"created": created, "created_by": f"multinode: {layer.name}"} for layer in own)]
    diff_ids = [f"sha256:{layer.written.diff_id}" for layer in layers]
    return encode(
        {
            "architecture": platform.architecture,
            "os": platform.os,
            "created": created,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }
    )


def published_digest(images: Sequence[Image]) -> str:
    """Return by which digest a registry knows an image that there is for each of some platforms."""
    return manifest.digest_of(indexes.published([(image.manifest, image.platform) for image in images]))


def registry_manifest(config: bytes, layers: tuple[Layer, ...], store: Store, compression: str) -> bytes:
    """Write the manifest as a registry has it."""
    return manifest.write(config, [packed(store, layer, compression) for layer in layers])
