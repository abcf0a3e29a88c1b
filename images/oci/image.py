"""A finished image: its names, its layers, its configuration, and the manifest that a registry has of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from images.host.store import Store
from images.model import PLATFORM
from images.oci import manifest
from images.oci.compression import packed
from images.oci.layer import Layer
from images.oci.manifest import digest_of, encode


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
    def id(self) -> str:
        return digest_of(self.config)

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def config(
    layers: Sequence[Layer], settings: Mapping[str, Any], created: str, below: Sequence[Mapping[str, Any]] = ()
) -> bytes:
    """Write the configuration; `settings` is the part that a container starts from, `created` an RFC 3339 time.

    `below` is the history of somebody else's base, which speaks for its layers.
    """
    own = [layer for layer in layers if layer.packed is None]
    history = [*below, *({"created": created, "created_by": f"multinode: {layer.name}"} for layer in own)]
    diff_ids = [f"sha256:{layer.written.diff_id}" for layer in layers]
    return encode(
        {
            "architecture": PLATFORM.architecture,
            "os": PLATFORM.os,
            "created": created,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }
    )


def registry_manifest(config: bytes, layers: tuple[Layer, ...], store: Store, compression: str) -> bytes:
    """Write the manifest as a registry has it."""
    return manifest.write(config, [packed(store, layer, compression) for layer in layers])
