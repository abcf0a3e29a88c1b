"""Layers as others pack them."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
import zstandard

from images.host.errors import WorldFault
from images.oci.compression import detect, opened

ONE, TWO = b"a tar, " * 500, b"or a part of it" * 500
ZSTD = zstandard.ZstdCompressor()
SKIPPED = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"  # RFC 8878, 3.1.2


@pytest.mark.parametrize(
    ("packed", "kind"),
    [
        (ONE + TWO, "none"),
        (gzip.compress(ONE + TWO), "gzip"),
        (gzip.compress(ONE) + gzip.compress(TWO), "gzip"),
        (ZSTD.compress(ONE + TWO), "zstd"),
        (ZSTD.compress(ONE) + ZSTD.compress(TWO), "zstd"),
        (SKIPPED + ZSTD.compress(ONE + TWO), "zstd"),
    ],
)
def test_a_layer_is_read_to_its_end(tmp_path: Path, packed: bytes, kind: str) -> None:
    (tmp_path / "blob").write_bytes(packed)

    with opened(tmp_path / "blob") as plain:
        start = plain.read(len(ONE) + 10)
        plain.rest()

    assert detect(tmp_path / "blob") == kind
    assert start == ONE + TWO[:10]
    assert (plain.size, plain.sha256) == (len(ONE + TWO), hashlib.sha256(ONE + TWO).hexdigest())


@pytest.mark.parametrize("packed", [gzip.compress(ONE)[:-9], gzip.compress(ONE)[:20] + b"x" * 20])
def test_a_damaged_layer_is_refused(tmp_path: Path, packed: bytes) -> None:
    (tmp_path / "blob").write_bytes(packed)

    with pytest.raises(WorldFault, match="cannot be unpacked"), opened(tmp_path / "blob") as plain:
        plain.rest()
