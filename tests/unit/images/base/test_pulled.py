"""Images out of directories and archives, and what is refused as a base."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from images.base import inspect, pulled
from images.base.base import Base, BaseImage, Site
from images.base.pulled import PulledImage, pull_image, pull_locked
from images.context import Access
from images.host import limits
from images.host.errors import WorldFault
from images.host.limits import Limit
from images.oci import compression as compressed
from images.oci import reference
from images.platforms import AMD64
from images.store.store import Store
from tests.support.stand_in import SITE, Image, layout, write


def fetched(text: str, store: Path) -> PulledImage:
    return pull_image(reference.parse_reference(text), AMD64, Store(store), Access(environ={}), lambda _: None)


def brought(text: str, store: Path) -> Base:
    return pulled.read_base(fetched(text, store), "3.10", "2.35", Store(store))


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_layers_keep_their_digests(tmp_path: Path, compression: str) -> None:
    image = Image(compression=compression)
    write(tmp_path / "layout", layout({"1": image}))

    base = brought(f"oci:{tmp_path / 'layout'}:1", tmp_path / "store")

    assert base.digest == image.digest
    assert [f"sha256:{layer.written.digest}" for layer in base.layers] == image.layers
    assert [f"sha256:{layer.written.diff_id}" for layer in base.layers] == image.config["rootfs"]["diff_ids"]
    assert [layer.written.unpacked for layer in base.layers] == [len(tar) for tar in image.tars]
    assert {layer.packed for layer in base.layers} == {compression}


def test_an_image_is_a_base_for_its_python(tmp_path: Path) -> None:
    write(tmp_path / "layout", layout({"1": Image()}))

    base = brought(f"oci:{tmp_path / 'layout'}:1", tmp_path / "store")

    assert base.name is None
    assert base.interpreter == "usr/bin/python3.10"
    assert base.site == Site("3.10", SITE, "/usr/bin/python3.10")
    assert base.sites == (SITE, "usr/lib/python3/dist-packages")
    assert base.facts.sshd == "usr/sbin/sshd"
    assert base.environment["LANG"] == "C.UTF-8"
    assert base.links["usr/local/bin/python"] == "/usr/bin/python3.10"
    assert base.history == ({"created_by": "base 1"}, {"created_by": "base 2"})


ROWS = [{"created_by": "a"}, {"created_by": "b", "empty_layer": True}, {"created_by": "c", "comment": "d"}]
NUMBERED = [{"created_by": "base 1"}, {"created_by": "base 2"}]


@pytest.mark.parametrize(
    ("history", "kept"),
    [(ROWS, ROWS), ([*ROWS, None], ROWS), (ROWS[:2], NUMBERED), ([*ROWS, ROWS[0]], NUMBERED), (ROWS[0], NUMBERED)],
)
def test_a_history_is_kept_if_it_accounts_for_every_layer(tmp_path: Path, history: object, kept: object) -> None:
    """Rows without a layer are of what a Dockerfile says of the whole image."""
    write(tmp_path / "layout", layout({"1": Image(history=history)}))

    assert [*brought(f"oci:{tmp_path / 'layout'}:1", tmp_path / "store").history] == kept


def test_the_second_time_nothing_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "layout", layout({"1": Image()}))
    first = brought(f"oci:{tmp_path / 'layout'}", tmp_path / "store")
    monkeypatch.setattr(compressed, "open_layer", None)

    assert brought(f"oci:{tmp_path / 'layout'}", tmp_path / "store") == first


ONE = f"sha256:{'1' * 64}"


@pytest.mark.parametrize(
    "rootfs",
    [
        None,
        1,
        {"diff_ids": 1},
        {"diff_ids": [ONE, "sha256:2"]},
        {"diff_ids": ["sha256:2", ONE]},
        {"diff_ids": [ONE]},
        {"diff_ids": [ONE] * 3},
        {"diff_ids": ["sha256:1", "sha256:2"]},
        {"diff_ids": [1, 2]},
        {"diff_ids": []},
    ],
)
def test_a_configuration_without_digests_of_its_layers_is_refused(tmp_path: Path, rootfs: object) -> None:
    write(tmp_path / "layout", layout({"1": Image(rootfs=rootfs)}))

    with pytest.raises(WorldFault, match="configuration"):
        fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store")


def test_a_configuration_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONFIG", Limit("", 99))
    write(tmp_path / "layout", layout({"1": Image()}))

    with pytest.raises(WorldFault, match="a configuration is too long"):
        fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store")


@pytest.mark.parametrize("config", [None, 1, [], {"Env": 1}, {"Env": {}}, {"Env": [1, None]}])
def test_odd_settings_of_a_configuration_are_no_variables(tmp_path: Path, config: object) -> None:
    write(tmp_path / "layout", layout({"1": Image(config=config)}))

    assert "PATH" not in fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store").environment


@pytest.mark.parametrize("more", [5, -5])
def test_a_manifest_that_says_another_size_of_a_layer_is_refused(tmp_path: Path, more: int) -> None:
    """By the size of the manifest, the good layer in the store counted as damaged, in every run."""
    image = Image()
    write(tmp_path / "layout", layout({"1": image}))
    manifest = fetched(f"oci:{tmp_path / 'layout'}", tmp_path / "store").manifest
    size = manifest.layers[1].size
    wrong = replace(manifest, layers=(manifest.layers[0], replace(manifest.layers[1], size=size + more)))

    with pytest.raises(WorldFault) as caught:
        pull_locked(BaseImage(wrong, ()), AMD64, Store(tmp_path / "store"), None, lambda _: None)

    said = f"{image.layers[1]} (the manifest says {size + more} bytes, the layer has {size})"
    assert caught.value.value == f"{image.digest}: {said}"
    assert Store(tmp_path / "store").has(manifest.layers[1].sha256, size)


def test_a_layer_without_a_byte_is_one_without_files(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"")

    _, sizes = inspect.read_facts([(tmp_path / "blob", f"sha256:{hashlib.sha256().hexdigest()}")], {}, AMD64)

    assert sizes == [0]
