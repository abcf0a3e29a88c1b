"""Configuration, manifest and index: the fields that engines read, and the same bytes every time."""

from __future__ import annotations

import json

from images.oci import image
from images.oci.layer import Written

PARTS = (
    image.Part("base", Written("a" * 64, "b" * 64, 10, 100), reused=True),
    image.Part("torch", Written("c" * 64, "d" * 64, 20, 200), reused=False),
)


def test_the_configuration_names_uncompressed_layers_in_order() -> None:
    made = json.loads(image.config(PARTS, {"User": "1000:0"}, "2026-01-01T00:00:00Z"))

    assert made["rootfs"]["diff_ids"] == ["sha256:" + "a" * 64, "sha256:" + "c" * 64]
    assert [row["created_by"] for row in made["history"]] == ["multinode: base", "multinode: torch"]
    assert made["config"] == {"User": "1000:0"}


def test_whether_a_layer_was_reused_does_not_show() -> None:
    again = tuple(image.Part(part.name, part.written, not part.reused) for part in PARTS)

    assert image.config(PARTS, {}, "t") == image.config(again, {}, "t")


def test_the_manifest_and_the_index_name_what_they_hold() -> None:
    config = image.config(PARTS, {}, "t")
    manifest = image.manifest(config, [("b" * 64, 10, "zstd"), ("e" * 64, 11, "none")])
    index = json.loads(image.index(manifest, "multinode:x"))["manifests"][0]

    assert json.loads(manifest)["config"]["digest"] == image.digest_of(config)
    assert json.loads(manifest)["layers"][0]["mediaType"] == "application/vnd.oci.image.layer.v1.tar+zstd"
    assert json.loads(manifest)["layers"][1]["mediaType"] == "application/vnd.oci.image.layer.v1.tar"
    assert json.loads(image.manifest(config, []))["layers"] == []
    assert (index["digest"], index["size"]) == (image.digest_of(manifest), len(manifest))
    assert index["annotations"]["org.opencontainers.image.ref.name"] == "x"


def test_dockers_manifest_points_at_the_same_blobs() -> None:
    made = json.loads(image.docker_manifest(b"{}", ["a" * 64], "multinode:x"))[0]

    assert made == {
        "Config": "blobs/sha256/" + image.digest_of(b"{}").removeprefix("sha256:"),
        "RepoTags": ["multinode:x"],
        "Layers": ["blobs/sha256/" + "a" * 64],
    }
