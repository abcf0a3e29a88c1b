"""The archive of an image: a layout and what `docker load` reads in one tar, the same bytes every time."""

from __future__ import annotations

import fcntl
import io
import json
import shutil
import tarfile
import threading
from pathlib import Path

import pytest

from images.deliver import transfer
from images.host.errors import Damaged
from images.oci import image, indexes, manifest
from images.oci.image import Image
from images.oci.indexes import LAYOUT
from images.oci.manifest import digest_of
from images.platforms import AMD64
from images.store.store import Store
from tests.support.finished_images import SMALL, finished, image_in
from tests.support.stand_in import digest, layer

LAYERS = (SMALL, {"etc/hostname": b"one\n"})
MANIFEST, INDEX = (f"application/vnd.oci.image.{kind}.v1+json" for kind in ("manifest", "index"))
TAG, NAME = "org.opencontainers.image.ref.name", "io.containerd.image.name"


def contents(data: bytes) -> dict[str, bytes]:
    """Return the files of a tar."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {info.name: file.read() for info in tar if (file := tar.extractfile(info))}


def test_an_archive_has_each_layer_uncompressed_by_its_digest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    whole = finished(store, *LAYERS)

    members = contents(b"".join(image.stream_archive(whole, store)))

    blobs = [whole.config, image.archived_manifest(whole), *map(layer, LAYERS)]
    expected = {f"blobs/sha256/{digest(blob).removeprefix('sha256:')}": blob for blob in blobs}
    index, for_docker = (json.loads(members.pop(name)) for name in ("index.json", "manifest.json"))
    row = {"mediaType": MANIFEST, "digest": digest(blobs[1]), "size": len(blobs[1]),
           "platform": {"architecture": "amd64", "os": "linux"}}  # fmt: skip
    names = [{TAG: tag.partition(":")[2], NAME: f"docker.io/library/{tag}"} for tag in whole.tags]
    assert members == {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', **expected}
    assert index == {
        "schemaVersion": 2, "mediaType": INDEX, "manifests": [{**row, "annotations": one} for one in names],
    }  # fmt: skip
    config, _, *layers = expected
    assert for_docker == [{"Config": config, "RepoTags": [*whole.tags], "Layers": layers}]


def test_an_archive_on_disk_is_the_same_and_every_time(tmp_path: Path) -> None:
    store, path = Store(tmp_path / "store"), tmp_path / "image.tar"
    whole = finished(store, *LAYERS)

    image.write_archive(path, whole, store)

    assert path.read_bytes() == b"".join(image.stream_archive(whole, store))


# Layouts that hold other images already, and that other builds write to.


def test_other_images_of_a_layout_stay(tmp_path: Path) -> None:
    store, place = Store(tmp_path / "store"), transfer.parse_target(f"{tmp_path}/layout/")
    for tags, label in ((("a:1", "a:2"), "first"), (("a:2",), "second")):
        config = image.write_config((), AMD64, {"Labels": {"which": label}}, "2026-01-01T00:00:00Z")
        written = manifest.write_manifest(config, [])
        transfer.save_images(place, [Image(tags, config, written, ())], store, "zstd")

    index = json.loads((tmp_path / "layout/index.json").read_bytes())
    named = [(row["annotations"][NAME], row["digest"]) for row in index["manifests"]]
    assert [name for name, _ in named] == ["docker.io/library/a:1", "docker.io/library/a:2"]
    assert named[0][1] != named[1][1]


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_a_layout_is_in_the_form_of_a_registry(tmp_path: Path, compression: str) -> None:
    store, blobs = Store(tmp_path / "store"), tmp_path / "layout/blobs/sha256"
    whole = finished(store, SMALL, compression=compression)

    transfer.save_images(transfer.parse_target(f"{tmp_path}/layout/"), [whole], store, compression)

    [first, *_] = json.loads((tmp_path / "layout/index.json").read_bytes())["manifests"]
    layers = json.loads((blobs / first["digest"].removeprefix("sha256:")).read_bytes())["layers"]
    data = [(blobs / row["digest"].removeprefix("sha256:")).read_bytes() for row in layers]
    assert first["digest"] == whole.digest and {row["mediaType"].rpartition("+")[2] for row in layers} == {compression}
    assert [(row["digest"], row["size"]) for row in layers] == [(digest_of(blob), len(blob)) for blob in data]


def test_a_damaged_layer_of_a_layout_is_written_again(tmp_path: Path) -> None:
    store, place = Store(tmp_path / "store"), transfer.parse_target(f"{tmp_path}/layout/")
    whole = image_in(store)
    transfer.save_images(place, [whole], store, "zstd")
    blob = tmp_path / "layout/blobs/sha256" / whole.layers[0].written.digest
    written = blob.stat().st_ino
    transfer.save_images(place, [whole], store, "zstd")
    assert blob.stat().st_ino == written
    blob.write_bytes(b"a l@yer")

    transfer.save_images(place, [whole], store, "zstd")

    assert blob.read_bytes() == b"a layer"
    store.drop(store.place(blob.name))
    transfer.save_images(place, [whole], store, "zstd")
    blob.unlink()
    with pytest.raises(Damaged):
        transfer.save_images(place, [whole], store, "zstd")


def test_two_builds_write_one_layer_into_one_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, place = Store(tmp_path / "store"), transfer.parse_target(f"{tmp_path}/layout/")
    whole, copy = image_in(store), shutil.copyfile

    def copied_while_another_build_does_all(source: Path, aside: Path) -> None:
        copy(source, aside)
        with monkeypatch.context() as other:
            other.setattr(shutil, "copyfile", copy)
            transfer.save_images(place, [whole], store, "zstd")

    monkeypatch.setattr(shutil, "copyfile", copied_while_another_build_does_all)

    transfer.save_images(place, [whole], store, "zstd")

    assert (tmp_path / "layout/blobs/sha256" / whole.layers[0].written.digest).read_bytes() == b"a layer"


def test_the_index_waits_for_that_of_another_build(tmp_path: Path) -> None:
    store, place = Store(tmp_path / "store"), transfer.parse_target(f"{tmp_path}/layout/")
    whole, index = image_in(store), tmp_path / "layout/index.json"
    (tmp_path / "layout").mkdir()
    with (tmp_path / "layout/oci-layout").open("ab") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        thread = threading.Thread(target=transfer.save_images, args=(place, [whole], store, "zstd"))
        thread.start()
        thread.join(timeout=0.1)
        index.write_bytes(indexes.write_index([(b"other", AMD64)], ["b:1"]))
    thread.join(timeout=10)

    names = [row["annotations"][NAME] for row in json.loads(index.read_bytes())["manifests"]]
    assert names == ["docker.io/library/b:1", "docker.io/library/a:1"]
    assert (tmp_path / "layout/oci-layout").read_bytes() == LAYOUT
