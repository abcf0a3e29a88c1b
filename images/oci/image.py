"""A finished image: its names, its layers, its configuration, and the manifest that a registry has of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from images.oci import indexes, manifest
from images.oci.compression import pack_layer
from images.oci.descriptors import digest_of, encode
from images.oci.layer import Layer
from images.platforms import PLATFORMS, Platform
from images.store.blobs import Blobs


@dataclass(frozen=True)
class Image:
    """A finished image; `id` is the digest of the configuration, `digest` that of the manifest in registry form.

    `tags` are its names, such as NAME:TAG or HOST/NAME:TAG, at least one.
    """

    tags: tuple[str, ...]
    config: bytes
    manifest: bytes
    layers: tuple[Layer, ...]

    @property
    def tag(self) -> str:
        """Return the first of its names, which is the one that is shown."""
        return self.tags[0]

    @property
    def platform(self) -> Platform:
        """Return what it is for, as its configuration says."""
        stated = json.loads(self.config)
        return next(
            platform
            for platform in PLATFORMS
            if (platform.os, platform.architecture) == (stated["os"], stated["architecture"])
        )

    @property
    def id(self) -> str:
        return f"sha256:{hashlib.sha256(self.config).hexdigest()}"

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.manifest).hexdigest()}"


def write_config(
    layers: Sequence[Layer], platform: Platform, settings: Mapping[str, Any], created: str,
    below: Sequence[Mapping[str, Any]] = (),
) -> bytes:  # fmt: skip
    """Write the configuration; `settings` is the part that a container starts from, `created` an RFC 3339 time.

    `below` is the history of somebody else's base, which speaks for its layers.
    """
    written = [layer for layer in layers if layer.packed is None]
    history = [*below, *({"created": created, "created_by": f"multinode: {layer.name}"} for layer in written)]
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
    return digest_of(indexes.published([(image.manifest, image.platform) for image in images]))


def registry_manifest(config: bytes, layers: tuple[Layer, ...], store: Blobs, compression: str) -> bytes:
    """Write the manifest as a registry has it."""
    return manifest.write_manifest(config, [pack_layer(store, layer, compression) for layer in layers])
