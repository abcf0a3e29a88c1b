"""Small finished images, in a store as a build leaves them."""

from __future__ import annotations

import zstandard

from images.oci import image as oci
from images.oci import manifest
from images.oci.image import Image
from images.oci.layer import Layer, Written
from images.platforms import AMD64, Platform
from images.store.store import Store
from tests.support.stand_in import Files, digest, layer
from tests.support.stores import keep

SMALL: Files = {"etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n"}
EMPTY = Image(("a:1",), oci.write_config((), AMD64, {}, "2024-01-01T00:00:00Z"), b"{}", ())


def finished(
    store: Store, *layers: Files, compression: str = "zstd", tags: tuple[str, ...] = ("multinode:a", "multinode:b"),
    platform: Platform = AMD64,
) -> Image:  # fmt: skip
    """Put the layers of an image into the store, as a build does."""
    written = tuple(_layer(store, number, files) for number, files in enumerate(layers))
    config = oci.write_config(written, platform, {"Env": ["A=1"]}, "2024-01-01T00:00:00Z")
    return Image(tags, config, oci.registry_manifest(config, written, store, compression), written)


def image_in(store: Store) -> Image:
    """Make an image of one layer that nobody unpacks."""
    part = Layer("x", Written("a" * 64, keep(store, b"a layer"), 7, 7), reused=True)
    config = oci.write_config((), AMD64, {}, "2024-01-01T00:00:00Z")
    return Image(("a:1",), config, manifest.write_manifest(config, []), (part,))


def _layer(store: Store, number: int, files: Files) -> Layer:
    tar = layer(files)
    data = zstandard.ZstdCompressor().compress(tar)
    diff_id = digest(tar).removeprefix("sha256:")
    return Layer(f"layer {number}", Written(diff_id, keep(store, data), len(data), len(tar)), reused=False)
