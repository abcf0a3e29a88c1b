"""Layers as others pack them."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from images.content import Content
from images.host.errors import Damaged, WorldFault
from images.lock import lockfile
from images.oci import compression
from images.oci.compression import detect, open_layer, stream_uncompressed
from images.oci.layer import Layer, Written
from images.oci.manifest import PUBLISHED
from images.store.store import Store
from tests.support.stores import keep

ONE, TWO = b"a tar, " * 500, b"or a part of it" * 500
ZSTD = zstandard.ZstdCompressor()
SKIPPED = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"  # RFC 8878, 3.1.2


@pytest.mark.parametrize(
    ("packed", "kind"),
    [
        (ONE + TWO, "none"),
        (gzip.compress(ONE + TWO, mtime=0), "gzip"),
        (gzip.compress(ONE, mtime=0) + gzip.compress(TWO, mtime=0), "gzip"),
        (ZSTD.compress(ONE + TWO), "zstd"),
        (ZSTD.compress(ONE) + ZSTD.compress(TWO), "zstd"),
        (SKIPPED + ZSTD.compress(ONE + TWO), "zstd"),
    ],
)
def test_a_layer_is_read_to_its_end(tmp_path: Path, packed: bytes, kind: str) -> None:
    (tmp_path / "blob").write_bytes(packed)

    with open_layer(tmp_path / "blob") as plain:
        start = plain.read(len(ONE) + 10)
        plain.rest()

    assert detect(tmp_path / "blob") == kind
    assert start == ONE + TWO[:10]
    assert (plain.size, plain.sha256) == (len(ONE + TWO), hashlib.sha256(ONE + TWO).hexdigest())


@pytest.mark.parametrize("packed", [gzip.compress(ONE, mtime=0)[:-9], gzip.compress(ONE, mtime=0)[:20] + b"x" * 20])
def test_a_damaged_layer_is_refused(tmp_path: Path, packed: bytes) -> None:
    (tmp_path / "blob").write_bytes(packed)

    with pytest.raises(WorldFault, match="cannot be unpacked"), open_layer(tmp_path / "blob") as plain:
        plain.rest()


def kept(store: Store, packed: bytes) -> Layer:
    """Keep a layer in the store."""
    digest = keep(store, packed)
    return Layer("torch", Written(hashlib.sha256(ONE).hexdigest(), digest, len(packed), len(ONE)), reused=True)


def flipped(data: bytes) -> bytes:
    return data[:-6] + bytes([data[-6] ^ 1]) + data[-5:]


@pytest.mark.parametrize("packed", [ZSTD.compress(ONE), gzip.compress(ONE, mtime=0), ONE])
@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-9], lambda data: data + b"x", flipped])
def test_a_damaged_layer_of_the_store_is_found_when_it_is_used_and_removed(
    tmp_path: Path, packed: bytes, damage: Callable[[bytes], bytes]
) -> None:
    store = Store(tmp_path)
    part = kept(store, packed)
    assert b"".join(stream_uncompressed(store, part)) == ONE
    store.place(part.written.digest).write_bytes(damage(packed))

    with pytest.raises(Damaged):
        list(stream_uncompressed(store, part))

    assert store.blob(part.written.digest) is None


def test_another_zlib_compresses_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = Store(tmp_path), list[Layer]()
    part = kept(store, ZSTD.compress(ONE))

    def counted(store: Store, part: Layer) -> Iterator[bytes]:
        read.append(part)
        return stream_uncompressed(store, part)

    monkeypatch.setattr(compression, "stream_uncompressed", counted)
    for release in ("1.2.13", "1.2.13", "1.3.1"):
        monkeypatch.setattr(zlib, "ZLIB_RUNTIME_VERSION", release)
        digest, size, kind = compression.pack_layer(store, part, "gzip")

        packed = store.blob(digest, size=size)
        assert packed and gzip.decompress(packed.read_bytes()) == ONE and kind == "gzip"
    assert len(read) == 2


def test_every_way_to_publish_a_layer_can_be_written() -> None:
    assert {"zstd", *compression.PACKERS} == {*PUBLISHED}, "each way of media_types.PUBLISHED has its packer"


# Settings of zstd: those that a lock names are those that layers are compressed with.


@pytest.mark.parametrize("layer", ["torch", *compression.OTHERWISE])
def test_a_layer_is_compressed_as_a_lock_says(layer: str) -> None:
    named, chosen = compression.zstd_settings(Content()), compression.choose_settings(layer, Content())

    for name in compression.USUAL:
        usual = named[f"zstd-{name.replace('_', '-')}"]
        assert chosen[name] == named.get(f"zstd-{layer} {name}".replace(" ", "-").replace("_", "-"), usual)


@pytest.mark.parametrize(
    ("layer", "name"), [("torch", "zstd-compression-level"), (compression.BASE, "zstd-debian-base-compression-level")]
)
def test_what_a_lock_says_of_zstd_is_what_layers_are_made_with(
    monkeypatch: pytest.MonkeyPatch, layer: str, name: str
) -> None:
    """Whatever changes the settings, as an option of the image may, changes the lock; another one is refused."""
    usual = compression.choose_settings

    def change(one: str, content: Content) -> dict[str, int]:
        is_it = (one == compression.BASE) == (layer == compression.BASE) and not content.trim
        return usual(one, content) | ({"compression_level": 7} if is_it else {})

    monkeypatch.setattr(compression, "choose_settings", change)
    before, after = lockfile.tools(Content()), lockfile.tools(Content(trim=False))

    assert {key: value for key, value in after.items() if before[key] != value} == {name: 7}
