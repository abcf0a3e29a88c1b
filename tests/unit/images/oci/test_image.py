"""The configuration: the fields that engines read, and the same bytes every time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from images.host.errors import UserFault
from images.host.store import Store, sha256
from images.oci import image, manifest
from images.oci.layer import Layer, Written

PARTS = (
    Layer("base", Written("a" * 64, "b" * 64, 10, 100), reused=True),
    Layer("torch", Written("c" * 64, "d" * 64, 20, 200), reused=False),
)


def test_the_configuration_names_uncompressed_layers_in_order() -> None:
    made = json.loads(image.config(PARTS, {"User": "1000:0"}, "2026-01-01T00:00:00Z"))

    assert made["rootfs"]["diff_ids"] == ["sha256:" + "a" * 64, "sha256:" + "c" * 64]
    assert [row["created_by"] for row in made["history"]] == ["multinode: base", "multinode: torch"]
    assert made["config"] == {"User": "1000:0"}


def test_whether_a_layer_was_reused_does_not_show() -> None:
    again = tuple(Layer(part.name, part.written, not part.reused) for part in PARTS)

    assert image.config(PARTS, {}, "t") == image.config(again, {}, "t")


def put_pipe(path: Path) -> None:
    os.mkfifo(path)


def put_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def put_other_things(path: Path) -> None:
    path.mkdir()
    (path / "index.json").write_text("mine")


@pytest.mark.parametrize("put", [put_pipe, put_link_to_a_device, put_other_things])
def test_what_is_no_archive_and_no_layout_is_left_alone(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "there")

    with pytest.raises(UserFault):
        image.output_target(str(tmp_path / "there"))


@pytest.mark.parametrize("text", ["nowhere/image.tar", "file/image.tar", "file/"])
def test_a_place_that_cannot_be(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text("a file")

    with pytest.raises(UserFault):
        image.output_target(f"{tmp_path}/{text}")


@pytest.mark.parametrize(
    ("text", "is_layout"), [("new.tar", False), ("new/", True), ("empty", True), ("layout", True), ("old.tar", False)]
)
def test_a_place_that_can_be(tmp_path: Path, text: str, is_layout: bool) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout/oci-layout").write_text("{}")
    (tmp_path / "old.tar").write_text("an archive")

    assert image.output_target(f"{tmp_path}/{text}") == image.Target(tmp_path / text.rstrip("/"), is_layout)


def test_a_link_to_an_archive_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "old.tar").write_text("an archive")
    (tmp_path / "link").symlink_to("old.tar")

    assert image.output_target(str(tmp_path / "link")).path == tmp_path / "old.tar"


def test_other_images_of_a_layout_stay(tmp_path: Path) -> None:
    store, place = Store(tmp_path / "store"), image.output_target(f"{tmp_path}/layout/")
    for tags, label in ((("a:1", "a:2"), "first"), (("a:2",), "second")):
        config = image.config((), {"Labels": {"which": label}}, "2026-01-01T00:00:00Z")
        written = manifest.write(config, [])
        image.save(place, image.Image(tags, config, written, ()), store, "zstd")

    index = json.loads((tmp_path / "layout/index.json").read_bytes())
    found = [(row["annotations"]["io.containerd.image.name"], row["digest"]) for row in index["manifests"]]
    assert [name for name, _ in found] == ["docker.io/library/a:1", "docker.io/library/a:2"]
    assert found[0][1] != found[1][1]


def image_in(store: Store) -> image.Image:
    """Make an image of one layer in a store."""
    with store.aside() as path:
        path.write_bytes(b"a layer")
        kept = store.keep(path, sha256(path))
    part = Layer("x", Written("a" * 64, kept.parent.name, 7, 7), reused=True)
    return image.Image(("a:1",), b"{}", manifest.write(b"{}", []), (part,))


def test_a_damaged_layer_of_a_layout_is_written_again(tmp_path: Path) -> None:
    store, place = Store(tmp_path / "store"), image.output_target(f"{tmp_path}/layout/")
    made = image_in(store)
    image.save(place, made, store, "zstd")
    blob = tmp_path / "layout/blobs/sha256" / made.layers[0].written.digest
    blob.write_bytes(b"a l@yer")

    image.save(place, made, store, "zstd")

    assert blob.read_bytes() == b"a layer"


def refusing(number: int) -> Callable[..., None]:
    """Return a link(2) that fails."""

    def link(*_: object) -> None:
        raise OSError(number, "no")

    return link


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV, errno.EMLINK])
def test_a_blob_that_cannot_be_linked_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    store = Store(tmp_path / "store")
    made = image_in(store)
    monkeypatch.setattr(os, "link", refusing(number))

    image.write_layout(tmp_path / "layout", made, store, "zstd", linked=True)

    assert (tmp_path / "layout/blobs/sha256" / made.layers[0].written.digest).read_bytes() == b"a layer"


@pytest.mark.parametrize("text", ["layout/", "image.tar"])
def test_an_interrupted_build_leaves_nothing_beside_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def interrupted(*given: object) -> None:
        next(place for place in given if isinstance(place, Path) and "store" not in place.parts).write_bytes(b"half")
        raise KeyboardInterrupt

    store = Store(tmp_path / "store")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(shutil, "copyfile", interrupted)
        patched.setattr(image, "write_archive", interrupted)
        image.save(image.output_target(f"{tmp_path}/{text}"), image_in(store), store, "zstd")

    assert list(tmp_path.rglob(".*")) == []
    assert image.output_target(f"{tmp_path}/{text}").is_layout == text.endswith("/")


def test_two_builds_write_one_layer_into_one_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, place = Store(tmp_path / "store"), image.output_target(f"{tmp_path}/layout/")
    made, copy = image_in(store), shutil.copyfile

    def copied_while_another_build_does_all(source: Path, aside: Path) -> None:
        copy(source, aside)
        with monkeypatch.context() as other:
            other.setattr(shutil, "copyfile", copy)
            image.save(place, made, store, "zstd")

    monkeypatch.setattr(shutil, "copyfile", copied_while_another_build_does_all)

    image.save(place, made, store, "zstd")

    assert (tmp_path / "layout/blobs/sha256" / made.layers[0].written.digest).read_bytes() == b"a layer"


def test_the_index_waits_for_that_of_another_build(tmp_path: Path) -> None:
    store, place = Store(tmp_path / "store"), image.output_target(f"{tmp_path}/layout/")
    made, index = image_in(store), tmp_path / "layout/index.json"
    (tmp_path / "layout").mkdir()
    with (tmp_path / "layout/oci-layout").open("ab") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        thread = threading.Thread(target=image.save, args=(place, made, store, "zstd"))
        thread.start()
        thread.join(timeout=0.5)
        index.write_bytes(manifest.write_index(b"other", ["b:1"]))
    thread.join(timeout=10)

    names = [row["annotations"]["io.containerd.image.name"] for row in json.loads(index.read_bytes())["manifests"]]
    assert names == ["docker.io/library/b:1", "docker.io/library/a:1"]
    assert (tmp_path / "layout/oci-layout").read_bytes() == image.LAYOUT


def test_a_link_to_itself_is_no_place_for_an_image(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    for text in (f"{tmp_path}/loop", f"{tmp_path}/loop/"):
        with pytest.raises(UserFault, match="link to itself"):
            image.output_target(text)
