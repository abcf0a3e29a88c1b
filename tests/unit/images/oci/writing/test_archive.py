"""The archive of an image: a layout and what `docker load` reads in one tar, the same bytes every time."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from images.oci import image
from images.oci.indexes import LAYOUT
from images.oci.manifest import digest_of
from images.store.store import Store
from tests.support.finished_images import SMALL, finished
from tests.support.stand_in import digest, layer

LAYERS = (SMALL, {"etc/hostname": b"one\n"})


def contents(data: bytes) -> dict[str, bytes]:
    """Return the files of a tar."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {info.name: file.read() for info in tar if (file := tar.extractfile(info))}


def test_an_archive_has_each_layer_uncompressed_by_its_digest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = finished(store, *LAYERS)

    found = contents(b"".join(image.stream_archive(made, store)))

    blobs = [made.config, image.archived_manifest(made), *map(layer, LAYERS)]
    expected = {f"blobs/sha256/{digest(blob).removeprefix('sha256:')}": blob for blob in blobs}
    documents = {name: found.pop(name) for name in ("oci-layout", "index.json", "manifest.json")}
    assert found == expected
    assert documents["oci-layout"] == LAYOUT
    assert {row["digest"] for row in json.loads(documents["index.json"])["manifests"]} == {digest_of(blobs[1])}
    assert json.loads(documents["manifest.json"])[0]["RepoTags"] == [*made.tags]


def test_an_archive_on_disk_is_the_same_and_every_time(tmp_path: Path) -> None:
    store, path = Store(tmp_path / "store"), tmp_path / "image.tar"
    made = finished(store, *LAYERS)

    image.write_archive(path, made, store)

    assert path.read_bytes() == b"".join(image.stream_archive(made, store))
