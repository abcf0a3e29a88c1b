"""Small finished images, in a store as a build leaves them."""

from __future__ import annotations

import zstandard

from images.host.store import Store, sha256
from images.model import Image, Layer, Written
from images.oci import image as oci
from images.oci import manifest
from images.platforms import AMD64, Platform
from tests.support.stand_in import Files, digest, layer

SMALL: Files = {"etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n"}
EMPTY = Image(("a:1",), oci.config((), AMD64, {}, "2024-01-01T00:00:00Z"), b"{}", ())


def finished(
    store: Store, *layers: Files, compression: str = "zstd", tags: tuple[str, ...] = ("multinode:a", "multinode:b"),
    platform: Platform = AMD64,
) -> Image:  # fmt: skip
    """Put the layers of an image into the store, as a build does."""
    made = tuple(_layer(store, number, files) for number, files in enumerate(layers))
    config = oci.config(made, platform, {"Env": ["A=1"]}, "2024-01-01T00:00:00Z")
    return Image(tags, config, oci.registry_manifest(config, made, store, compression), made)


def image_in(store: Store) -> Image:
    """Make an image of one layer that nobody unpacks."""
    with store.temporary() as path:
        path.write_bytes(b"a layer")
        kept = store.keep(path, sha256(path))
    part = Layer("x", Written("a" * 64, kept.parent.name, 7, 7), reused=True)
    config = oci.config((), AMD64, {}, "2024-01-01T00:00:00Z")
    return Image(("a:1",), config, manifest.write(config, []), (part,))


def _layer(store: Store, number: int, files: Files) -> Layer:
    tar = layer(files)
    data = zstandard.ZstdCompressor().compress(tar)
    names = [digest(one).removeprefix("sha256:") for one in (tar, data)]
    with store.temporary() as path:
        path.write_bytes(data)
        store.keep(path, names[1])
    return Layer(f"layer {number}", Written(names[0], names[1], len(data), len(tar)), reused=False)
