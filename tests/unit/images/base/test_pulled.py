"""Images out of directories and archives, and what is refused as a base."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from images.base import inspect, pulled
from images.base.base import Base, Site
from images.base.pulled import Parts
from images.host.context import Access
from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.oci import compression as compressed
from images.oci import reference
from tests.support.stand_in import SITE, SYSTEM, Image, layout, saved, write


def fetched(text: str, store: Path) -> Parts:
    return pulled.fetch(reference.parse(text), Store(store), Access(environ={}), lambda _: None)


def brought(text: str, store: Path) -> Base:
    return pulled.read(fetched(text, store), "3.10", "2.35", Store(store))


def tarred(path: Path, files: Mapping[str, bytes]) -> str:
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return f"archive:{path}"


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_layers_keep_their_digests(tmp_path: Path, compression: str) -> None:
    image = Image(compression=compression)
    write(tmp_path / "layout", layout({"1": image}))

    found = brought(f"oci:{tmp_path / 'layout'}:1", tmp_path / "store")

    assert found.digest == image.digest
    assert [f"sha256:{layer.written.digest}" for layer in found.layers] == image.layers
    assert [f"sha256:{layer.written.diff_id}" for layer in found.layers] == image.config["rootfs"]["diff_ids"]
    assert [layer.written.unpacked for layer in found.layers] == [len(tar) for tar in image.tars]
    assert {layer.packed for layer in found.layers} == {compression}


def test_an_image_is_a_base_for_its_python(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout({"1": Image()}))

    found = brought(f"oci:{tmp_path / 'layout'}:1", tmp_path / "store")

    assert found.name is None
    assert found.interpreter == "usr/bin/python3.10"
    assert found.site == Site("3.10", SITE, "/usr/bin/python3.10")
    assert found.sites == (SITE, "usr/lib/python3/dist-packages")
    assert found.facts.sshd == "usr/sbin/sshd"
    assert found.environment["LANG"] == "C.UTF-8"
    assert found.links["usr/local/bin/python"] == "/usr/bin/python3.10"
    assert found.history == ({"created_by": "base 1"}, {"created_by": "base 2"})


def test_archives_of_both_kinds_hold_the_same_image(tmp_path: Path) -> None:
    image = Image(compression="none")

    by_docker = brought(tarred(tmp_path / "saved", saved(image)), tmp_path / "store")
    by_others = brought(tarred(tmp_path / "oci", layout({"1": image})), tmp_path / "other")

    assert by_docker.layers == by_others.layers
    assert by_docker.facts == by_others.facts
    assert by_docker.environment == by_others.environment


def test_the_second_time_nothing_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "layout", layout({"1": Image()}))
    first = brought(f"oci:{tmp_path / 'layout'}", tmp_path / "store")
    monkeypatch.setattr(compressed, "opened", None)

    assert brought(f"oci:{tmp_path / 'layout'}", tmp_path / "store") == first


def test_a_damaged_layer_in_the_store_is_copied_again(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout({"1": Image()}))
    first = brought(f"oci:{tmp_path / 'layout'}", tmp_path / "store")
    blob = tmp_path / "store" / "blobs" / first.layers[0].written.digest / "blob"
    blob.write_bytes(blob.read_bytes()[:-1])

    assert brought(f"oci:{tmp_path / 'layout'}", tmp_path / "store") == first
    assert compressed.detect(blob) == "gzip" and blob.stat().st_size == first.layers[0].written.size


def broken(image: Image, change: Mapping[str, bytes]) -> dict[str, bytes]:
    return {**layout({"1": image}), **change}


def test_a_signature_that_containerd_saves_beside_its_image_is_no_second_image(tmp_path: Path) -> None:
    files = layout({"1": Image(), "": Image([SYSTEM])})
    index = json.loads(files["index.json"])
    index["manifests"][1]["annotations"] = {"io.containerd.manifest.subject": Image().digest}
    write(tmp_path / "layout", {**files, "index.json": json.dumps(index).encode()})

    assert fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store").manifest.digest == Image().digest


LAYER = "blobs/" + Image().layers[0].replace(":", "/")


@pytest.mark.parametrize(
    ("files", "kind", "fact"),
    [
        ({}, UserFault, "that is not an OCI layout"),
        (broken(Image(), {"index.json": b"<html>"}), WorldFault, "a manifest is not JSON"),
        (broken(Image(), {"index.json": b'{"manifests": 1}'}), UserFault, "there is no such image"),
        (broken(Image(), {LAYER: b"other"}), WorldFault, "another sha256"),
        (broken(Image(), {LAYER: layout({"1": Image()})[LAYER] + b"x"}), WorldFault, "of the image is too long"),
        ({p: d for p, d in broken(Image(), {}).items() if p != LAYER}, UserFault, "the image is not whole"),
        (broken(Image(architecture="arm64"), {}), UserFault, "for another machine"),
        (layout({"1": Image(), "2": Image([SYSTEM])}), UserFault, "there are several images"),
    ],
)
def test_a_bad_layout_is_refused_and_leaves_nothing(
    tmp_path: Path, files: Mapping[str, bytes], kind: type[Fault], fact: str
) -> None:
    write(tmp_path / "layout", files)

    with pytest.raises(kind, match=fact) as caught:
        fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store")

    assert caught.value.value and caught.value.remedy
    assert list((tmp_path / "store" / "aside").iterdir()) == []


def test_a_device_in_a_layout_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout({"1": Image()}))
    (tmp_path / "layout" / LAYER).unlink()
    (tmp_path / "layout" / LAYER).symlink_to("/dev/null")

    with pytest.raises(UserFault, match="the image is not whole"):
        fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store")


def test_another_architecture_is_refused_before_a_layer_is_copied(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout({"1": Image(architecture="arm64")}))

    with pytest.raises(UserFault, match="linux/arm64"):
        fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store")

    assert len(list((tmp_path / "store" / "blobs").iterdir())) == 1  # the configuration


@pytest.mark.parametrize(
    "rootfs", [None, 1, {"diff_ids": 1}, {"diff_ids": ["sha256:1", "sha256:2"]}, {"diff_ids": [1, 2]}, {"diff_ids": []}]
)
def test_a_configuration_without_digests_of_its_layers_is_refused(tmp_path: Path, rootfs: object) -> None:
    write(tmp_path / "layout", layout({"1": Image(rootfs=rootfs)}))

    with pytest.raises(WorldFault, match="configuration"):
        fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store")


def test_a_configuration_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulled, "CONFIG_LIMIT", 99)
    write(tmp_path / "layout", layout({"1": Image()}))

    with pytest.raises(WorldFault, match="a configuration is too long"):
        fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store")


@pytest.mark.parametrize("config", [None, 1, [], {"Env": 1}, {"Env": {}}, {"Env": [1, None]}])
def test_odd_settings_of_a_configuration_are_no_variables(tmp_path: Path, config: object) -> None:
    write(tmp_path / "layout", layout({"1": Image(config=config)}))

    assert "PATH" not in fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store").environment


@pytest.mark.parametrize("data", [b"", b"no tar", None])
def test_a_bad_archive_is_refused(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "a.tar"
    if data is not None:
        path.write_bytes(data)

    with pytest.raises(UserFault, match="archive"):
        fetched(str(path), tmp_path / "store")


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_an_archive_that_is_cut_is_refused(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    tarred(tmp_path / "a.tar", saved(Image()))
    whole = packed((tmp_path / "a.tar").read_bytes())
    (tmp_path / "a.tar").write_bytes(whole[: len(whole) * 2 // 3])

    with pytest.raises(WorldFault) as caught:
        fetched(str(tmp_path / "a.tar"), tmp_path / "store")

    assert str(caught.value).startswith(f"error: the archive is cut short: archive:{tmp_path / 'a.tar'}\n  try: copy")


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"\x1f\x8bgarbage", "a layer cannot be unpacked"),
        (b"\x28\xb5\x2f\xfdgarbage", "a layer cannot be unpacked"),
        (b"garbage" * 200, "a layer is not a tar"),
    ],
)
def test_a_layer_that_is_garbage_is_refused(tmp_path: Path, data: bytes, fact: str) -> None:
    path = tmp_path / "blob"
    path.write_bytes(data)

    with pytest.raises(WorldFault, match=fact):
        inspect.read([(path, "sha256:0")], {})
