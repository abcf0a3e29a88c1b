"""What `docker save` writes: the manifest that it would have in a registry, and every way it can be damaged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from images.foreign.files import Files
from images.host.errors import Fault, WorldFault
from images.oci import indexes, reading
from images.oci.manifest import MOST_LAYERS
from images.oci.reading import OnDisk
from images.platforms import AMD64
from images.store.store import Store

GOOD: dict[str, Any] = {"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["1/layer.tar", "2/layer.tar"]}
NO_STORE = cast("Store", None)  # nothing is copied here
PARTS = {"c.json": b"{}", "1/layer.tar": b"lowest", "2/layer.tar": b"above it"}


def read(images: object, parts: Mapping[str, bytes] = PARTS, read_paths: list[str] | None = None) -> OnDisk:
    """Read an archive of these images, whose list is JSON unless it is bytes."""
    listed = images if isinstance(images, bytes) else json.dumps(images).encode()
    files = {**parts, "manifest.json": listed}

    def pieces(path: str) -> Iterator[bytes]:
        if read_paths is not None:
            read_paths.append(path)
        if path not in files:
            raise FileNotFoundError(path)
        yield files[path]

    return reading.open_saved(Files("it", files.__contains__, pieces), NO_STORE)


def test_layers_get_the_digests_of_their_tars() -> None:
    image = read([GOOD])

    found = indexes.find_manifest(image.manifest, "it", AMD64)

    assert [(layer.digest, layer.size) for layer in found.layers] == [
        (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) for data in (b"lowest", b"above it")
    ]
    assert {layer.media_type for layer in found.layers} == {"application/vnd.oci.image.layer.v1.tar"}
    assert [image.place(part.digest) for part in (found.config, *found.layers)] == [*PARTS]


def test_a_layer_that_is_there_twice_is_read_once() -> None:
    paths: list[str] = []

    found = indexes.find_manifest(
        read([{**GOOD, "Layers": ["1/layer.tar"] * 300}], read_paths=paths).manifest, "it", AMD64
    )

    assert len(found.layers) == 300
    assert paths.count("1/layer.tar") == 1


def test_no_layer_is_read_of_an_image_of_too_many() -> None:
    paths: list[str] = []

    with pytest.raises(WorldFault, match=f"more than {MOST_LAYERS} layers: it \\(501\\)"):
        read([{**GOOD, "Layers": ["1/layer.tar"] * 501}], read_paths=paths)

    assert "1/layer.tar" not in paths


OLD = "oci:DIRECTORY with index.json in it, or archive:FILE from docker save; what Docker before 1.10 saved must be"
AGAIN = "docker save it again"


@pytest.mark.parametrize(
    ("images", "fact", "value", "remedy"),
    [
        (b"<html>", "that is no archive of an image", "it", OLD),
        (b"[" * 100_000, "that is no archive of an image", "it", OLD),
        (5, "the list of images in the archive is damaged", "it", AGAIN),
        ([], "the list of images in the archive is damaged", "it", AGAIN),
        ([5], "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD, "Config": None}], "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD, "Layers": "1/layer.tar"}], "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD, "Layers": [1]}], "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD, "RepoTags": 5}] * 2, "the list of images in the archive is damaged", "it", AGAIN),
        ([{**GOOD, "RepoTags": [5]}] * 2, "the list of images in the archive is damaged", "it", AGAIN),
        ([GOOD, {**GOOD, "RepoTags": None}], "there are several images", "it (a:1, without a tag)", "docker save one"),
        ([{**GOOD, "Config": "x.json"}], "a file is missing", "it: x.json", "copy or save"),
        ([{**GOOD, "Layers": ["x.tar"]}], "a file is missing", "it: x.tar", "copy or save"),
    ],
)
def test_what_is_no_whole_image_is_refused(images: object, fact: str, value: str, remedy: str) -> None:
    with pytest.raises(Fault) as caught:
        read(images)

    assert (caught.value.fact, caught.value.value) == (fact, value)
    assert caught.value.remedy.startswith(remedy)
