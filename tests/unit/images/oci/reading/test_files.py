"""What is read of the files of an image, and how its parts come into the store."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest

from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.model import Descriptor, Manifest
from images.oci.manifest import LIMIT
from images.oci.reading.files import AGAIN, Files, OnDisk, listed
from tests.support.stand_in import digest


def unreadable(_: int) -> bytes:
    raise OSError(5, "Input/output error")


def files(contents: Mapping[str, bytes | Exception]) -> Files:
    """Have these files; for an exception, one that cannot be opened."""

    def open_(path: str) -> IO[bytes]:
        found = contents[path]
        if isinstance(found, Exception):
            raise found
        return io.BytesIO(found)

    return Files("it", "type that", open_)


@pytest.mark.parametrize(
    ("contents", "kind", "text"),
    [
        ({}, UserFault, "error: the image is not whole: it (no a)\n  try: type that"),
        ({"a": FileNotFoundError()}, UserFault, "error: the image is not whole: it (no a)\n  try: type that"),
        (
            {"a": bytes(LIMIT + 1)},
            WorldFault,
            f"error: a file of the image is too long: it (more than {LIMIT} bytes)\n  try: {AGAIN}",
        ),
    ],
)
def test_a_document_that_cannot_be_had(contents: Mapping[str, bytes | Exception], kind: type[Fault], text: str) -> None:
    with pytest.raises(kind) as caught:
        files(contents).read("a")

    assert str(caught.value) == text


def test_a_document_may_be_as_long_as_a_manifest() -> None:
    assert files({"a": bytes(LIMIT)}).read("a") == bytes(LIMIT)


def test_a_file_that_the_user_may_not_read_is_not_said_to_be_missing() -> None:
    with pytest.raises(PermissionError):
        files({"a": PermissionError(13, "Permission denied", "/layout/a")}).read("a")


def test_a_disk_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    monkeypatch.setattr(file, "read", unreadable)

    with pytest.raises(WorldFault, match=r"cannot be read: it \(\[Errno 5\] Input/output error\)") as caught:
        Files("it", "", lambda _: file).read("a")

    assert caught.value.remedy == AGAIN
    assert file.closed


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
        (b"a l@yer" * 99, f"a blob has another sha256 than its name: it: .*, not {digest(LAYER)[7:]}"),
        (LAYER[:-1], "a blob has another sha256"),
        (LAYER + b"x", rf"too long: it \(more than {len(LAYER)} bytes\)"),
    ],
)
def test_a_part_that_is_not_what_its_digest_says_is_not_kept(tmp_path: Path, layer: bytes, fact: str) -> None:
    with pytest.raises(WorldFault, match=fact) as caught:
        image(tmp_path, layer).layers(FOUND, lambda _: None)

    assert caught.value.remedy == AGAIN
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_has_no_tag_is_listed_once() -> None:
    assert listed(["a", "", "b", "", "a"]) == "a, without a tag, b"
