"""How the parts of an image on disk come into the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.foreign.files import AGAIN
from images.host.errors import WorldFault
from images.host.store import Store
from images.model import Descriptor, Manifest
from images.oci.reading.files import OnDisk, listed
from tests.support.foreign_files import files
from tests.support.stand_in import digest

CONFIG, LAYER = b"{}", b"a layer" * 99
FOUND = Manifest(
    digest(b"m"),
    Descriptor("application/json", digest(CONFIG), len(CONFIG)),
    (Descriptor("application/x-tar", digest(LAYER), len(LAYER)),) * 2,
)


def image(store: Path, layer: bytes = LAYER) -> OnDisk:
    """Have an image whose parts are called by their digests."""
    return OnDisk(files({digest(CONFIG): CONFIG, digest(LAYER): layer}), Store(store), lambda _: b"", str)


def test_every_part_comes_into_the_store_once(tmp_path: Path) -> None:
    came: list[int] = []

    config = image(tmp_path).config(FOUND, came.append)
    layers = image(tmp_path).layers(FOUND, came.append)

    assert config.read_bytes() == CONFIG
    assert [path.read_bytes() for path in layers] == [LAYER, LAYER]
    assert came == [len(CONFIG), len(LAYER)]


def test_a_damaged_part_of_the_store_is_copied_again(tmp_path: Path) -> None:
    path = image(tmp_path).config(FOUND, lambda _: None)
    path.write_bytes(b"[]")

    assert image(tmp_path).config(FOUND, lambda _: None).read_bytes() == CONFIG


@pytest.mark.parametrize(
    ("layer", "fact"),
    [
        (b"a l@yer" * 99, f"another sha256: it: .*, not {digest(LAYER)[7:]}"),
        (LAYER[:-1], "it has another sha256"),
        (LAYER + b"x", rf"too long: it: .* \(more than {len(LAYER)} bytes\)"),
    ],
)
def test_a_part_that_is_not_what_its_digest_says_is_not_kept(tmp_path: Path, layer: bytes, fact: str) -> None:
    with pytest.raises(WorldFault, match=fact) as caught:
        image(tmp_path, layer).layers(FOUND, lambda _: None)

    assert caught.value.remedy == AGAIN
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_has_no_tag_is_listed_once() -> None:
    assert listed(["a", "", "b", "", "a"]) == "a, without a tag, b"
