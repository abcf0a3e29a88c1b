"""Manifests and indexes: those of others are read, those of this project are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from images.host.errors import Fault, UserFault, WorldFault
from images.oci import manifest
from images.oci.indexes import choose_entry, find_manifest, find_manifests, published, write_index
from images.oci.manifest import INDEXES, MANIFESTS, encode
from images.platforms import AMD64, ARM64, PLATFORMS, Platform
from tests.support.stand_in import Image, digest


def entry(architecture: str, *, digest: str = "a", system: str = "linux", **more: str) -> dict[str, Any]:
    platform = {"os": system, "architecture": architecture, **more}
    return {"mediaType": MANIFESTS[0], "digest": f"sha256:{digest * 64}", "size": 1, "platform": platform}


def test_an_index_leads_to_the_manifest() -> None:
    image = Image()
    index = json.dumps({"schemaVersion": 2, "manifests": [entry("arm64"), image.entry]}).encode()
    around = {"mediaType": INDEXES[0], "digest": digest(index), "size": len(index)}
    outer = json.dumps({"schemaVersion": 2, "manifests": [around]}).encode()
    served = {"it": outer, digest(index): index, **image.blobs}

    chosen = find_manifest(lambda wanted: served[wanted or "it"], "it", AMD64)

    assert chosen.digest == image.digest
    assert [layer.digest for layer in chosen.layers] == image.layers


@pytest.mark.parametrize(("depth", "is_found"), [(2, True), (3, False)])
def test_an_index_of_indexes_has_an_end(depth: int, is_found: bool) -> None:
    image = Image()
    row, blobs = image.entry, {**image.blobs}
    for _ in range(depth):
        data = encode({"schemaVersion": 2, "manifests": [row]})
        row = {"mediaType": INDEXES[0], "digest": digest(data), "size": len(data)}
        blobs[digest(data)] = data

    def read(wanted: str | None) -> bytes:
        return blobs[wanted or row["digest"]]

    with nullcontext() if is_found else pytest.raises(WorldFault, match="again and again"):
        assert find_manifest(read, "it", AMD64).digest == image.digest
    with nullcontext() if is_found else pytest.raises(WorldFault, match="again and again"):
        assert [one.digest for _, one in find_manifests(read, "it", AMD64)[1]] == [image.digest]


OCI = ("oci.image.index.v1+json", "oci.image.manifest.v1+json", "oci.image.config.v1+json", "oci.image.layer.v1.tar")
DOCKER = ("docker.distribution.manifest.list.v2+json", "docker.distribution.manifest.v2+json",
          "docker.container.image.v1+json", "docker.image.rootfs.diff.tar")  # fmt: skip


@pytest.mark.parametrize(("kinds", "packed"), [(OCI, ("", "+gzip", "+zstd")), (DOCKER, ("", ".gzip"))])
def test_an_image_is_read_in_the_words_of_oci_and_of_docker(kinds: Sequence[str], packed: Sequence[str]) -> None:
    index, image, config, layer = (f"application/vnd.{kind}" for kind in kinds)
    layers = [manifest.described(f"{layer}{end}", end.encode()) for end in packed]
    inner = encode({"mediaType": image, "config": manifest.described(config, b"{}"), "layers": layers})
    system = {"platform": {"os": "linux", "architecture": "amd64"}}
    outer = encode({"mediaType": index, "manifests": [{**manifest.described(image, inner), **system}]})
    served = {"it": outer, digest(inner): inner}

    chosen = find_manifest(lambda wanted: served[wanted or "it"], "it", AMD64)

    assert [one.media_type for one in (chosen.config, *chosen.layers)] == [
        config,
        *(row["mediaType"] for row in layers),
    ]


def test_amd64_for_every_processor_is_preferred() -> None:
    entries = [entry("arm64"), entry("amd64", digest="b", variant="v3"), entry("amd64", digest="c")]

    assert choose_entry(entries, "it", AMD64).digest == "sha256:" + "c" * 64


OURS = (Image(), Image(architecture="arm64"))
INDEX = published([(image.blobs[image.digest], platform) for image, platform in zip(OURS, PLATFORMS, strict=True)])
ROWS: list[dict[str, Any]] = json.loads(INDEX)["manifests"]


def served(rows: object, **more: object) -> Callable[[str | None], bytes]:
    """Serve the two images of ours and an index with these rows, which has these other keys, too."""
    index = encode({"schemaVersion": 2, "mediaType": INDEXES[0], "manifests": rows, **more})
    around = json.dumps({"manifests": [{"mediaType": INDEXES[0], "digest": digest(index), "size": 1}]}).encode()
    blobs = {digest(index): index, **OURS[0].blobs, **OURS[1].blobs}
    return lambda wanted: blobs[wanted] if wanted else around


def test_each_image_of_an_index_of_ours_is_found() -> None:
    (_, named), manifests = find_manifests(served(ROWS), "it", None)

    assert named == digest(INDEX)
    assert [(platform, row.digest) for platform, row in manifests] == [(AMD64, OURS[0].digest), (ARM64, OURS[1].digest)]


@pytest.mark.parametrize(("platform", "number"), [(AMD64, 0), (ARM64, 1)])
def test_one_image_of_an_index_is_found_by_its_platform(platform: Platform, number: int) -> None:
    for rows in (ROWS, ROWS[number:][:1]):
        _, [(chosen, image)] = find_manifests(served(rows), "it", platform)
        assert (chosen, image.digest) == (platform, OURS[number].digest)


def test_the_only_image_of_an_index_is_found() -> None:
    (*indexes, named), [(platform, image)] = find_manifests(served(ROWS[1:]), "it", None)

    assert (named, platform, image.digest) == (OURS[1].digest, ARM64, OURS[1].digest)
    assert len(indexes) == 2  # to each of them documents may be attached


ODD: dict[str, list[object]] = {
    "a platform twice": [*ROWS, {**ROWS[0], "digest": "sha256:" + "c" * 64}],
    "one image for two": [ROWS[0], {**ROWS[1], "digest": ROWS[0]["digest"]}, ROWS[1]],
    "another platform": [*ROWS, entry("riscv64")],
    "an attestation": [*ROWS, entry("unknown", system="unknown")],
    "what does not say": [*ROWS, {key: value for key, value in entry("amd64").items() if key != "platform"}],
    "a spelling": [ROWS[0], {**ROWS[1], "platform": {"os": "linux", "architecture": "aarch64"}}],
    "a variant": [ROWS[0], {**ROWS[1], "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}}],
    "an index": [ROWS[0], {**ROWS[1], "mediaType": INDEXES[0]}],
    "an annotation": [ROWS[0], {**ROWS[1], "annotations": {"a": "b"}}],
    "an address": [ROWS[0], {**ROWS[1], "urls": ["https://example.org"]}],
}


@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_an_index_with_anything_else_in_it_is_not_every_image(rows: list[object]) -> None:
    for asked in (None, AMD64):
        with pytest.raises(UserFault, match="something else than one image"):
            find_manifests(served(rows), "it", asked)


@pytest.mark.parametrize("key", ["subject", "annotations", "artifactType"])
def test_an_index_that_says_more_is_not_every_image(key: str) -> None:
    with pytest.raises(UserFault, match=key):
        find_manifests(served(ROWS, **{key: {}}), "it", None)


def test_all_else_that_is_in_an_index_is_named() -> None:
    odd = [entry("riscv64", digest="b"), entry("unknown", system="unknown")]
    with pytest.raises(UserFault) as caught:
        find_manifests(served([*ROWS, *odd], annotations={}), "it", None)
    assert caught.value.value == f"it (annotations, sha256:{'a' * 64}, sha256:{'b' * 64})"


def test_an_empty_index_is_no_image() -> None:
    with pytest.raises(UserFault, match=r"\(nothing\)"):
        find_manifests(served([]), "it", None)


@pytest.mark.parametrize(
    "more",
    [
        {"Layers": []},
        {"MANIFESTS": []},
        {"manife\u017fts": []},  # in Go's eyes, too
        {"manifests": []},
        {"manifests": [], "mediaType": INDEXES[0]},
        {"mediaType": INDEXES[0]},
        *({key.swapcase(): {}} for key in (
            "schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations")),
        *({"layers": [{key.swapcase(): ""}]} for key in ("digest", "size", "urls", "data", "mediaType")),
        *({"config": {"platform": {key.upper(): ""}}} for key in ("os", "architecture", "variant")),
        {"config": {"Platform": {}}},
    ],
)  # fmt: skip
def test_a_manifest_that_engines_read_in_another_way_is_refused(more: dict[str, Any]) -> None:
    image = Image()
    data = json.dumps({**json.loads(image.blobs[image.digest]), **more}).encode()

    with pytest.raises(WorldFault, match=r"of two kinds|as another one"):
        manifest.parse_document(data, "it")


def test_a_missing_platform_is_said_with_those_that_are_there() -> None:
    with pytest.raises(UserFault, match=r"linux/arm64, windows/amd64\)") as caught:
        choose_entry(
            [entry("arm64"), entry("amd64", system="windows"), entry("unknown", system="unknown")], "it", AMD64
        )

    assert caught.value.remedy == "an image for linux/amd64 or --platform linux/arm64"


def changed(**changes: object) -> bytes:
    return json.dumps({**json.loads(Image().blobs[Image().digest]), **changes}).encode()


LAYER = {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest(b""), "size": 0}
FOREIGN = {"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "digest": digest(b""), "size": 0}


@pytest.mark.parametrize(
    ("data", "kind", "fact"),
    [
        (b"<html>", WorldFault, "a manifest is not JSON"),
        (b"[" * 100_000, WorldFault, "a manifest is not JSON"),
        (b"1", WorldFault, "a manifest is not a JSON object"),
        (b"\xff", WorldFault, "a manifest is not JSON"),
        (b'{"schemaVersion": 1, "fsLayers": []}', WorldFault, "a manifest is damaged"),
        (changed(layers=None), WorldFault, "a manifest is damaged"),
        (changed(config={}), WorldFault, "a manifest is damaged"),
        (changed(layers=[LAYER] * 501), WorldFault, "an image has more than 500 layers"),
        (changed(layers=[{**LAYER, "size": True}]), WorldFault, "a manifest is damaged"),
        (changed(layers=[{**LAYER, "mediaType": None}]), WorldFault, "damaged: it .*'mediaType': None"),
        (changed(layers=[{**LAYER, "digest": "sha256:../x"}]), WorldFault, "a manifest is damaged"),
        (changed(layers=[{**LAYER, "digest": f"sha256:{'A' * 64}"}]), WorldFault, "a manifest is damaged"),
        (changed(layers=[FOREIGN]), UserFault, "not an image that can be a base"),
        (json.dumps({"manifests": [entry("amd64")]}).encode(), WorldFault, "another digest"),
    ],
)
def test_what_is_no_image_is_refused(data: bytes, kind: type[Fault], fact: str) -> None:
    with pytest.raises(kind, match=fact) as caught:
        find_manifest(lambda _: data, "it", AMD64)

    assert "it" in caught.value.value and caught.value.remedy


def test_a_name_without_its_host_in_an_earlier_index_is_the_same_name() -> None:
    names = ("multinode:x", "docker.io/library/multinode:x", "host:5000/multinode:x")
    before = [{"digest": name, "annotations": {"io.containerd.image.name": name}} for name in names]

    written = write_index([(b"{}", AMD64)], ["multinode:x"], json.dumps({"manifests": before}).encode())

    assert [entry["digest"] for entry in json.loads(written)["manifests"]] == [names[2], digest(b"{}")]


def test_a_document_has_one_text_whatever_the_order_of_its_names() -> None:
    values = {"b": [1, {"d": "\u00e9", "c": None}], "a": {}}

    assert encode(values) == b'{"a":{},"b":[1,{"c":null,"d":"\\u00e9"}]}'


@pytest.mark.parametrize("annotations", [{}, {"b": "2", "a": "1"}])
def test_a_manifest_names_its_configuration_and_its_layers(annotations: dict[str, str]) -> None:
    kinds = {"none": "", "gzip": "+gzip", "zstd": "+zstd"}
    layers = [(letter * 64, size, kind) for letter, size, kind in zip("abc", (1, 2, 3), kinds, strict=True)]

    written = json.loads(manifest.write_manifest(b"{}", layers, annotations))

    kind = "application/vnd.oci.image"
    assert written == {
        "schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", "digest": digest(b"{}"), "size": 2},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar{kinds[name]}", "digest": f"sha256:{sha}", "size": size}
                   for sha, size, name in layers],
        **({"annotations": annotations} if annotations else {}),
    }  # fmt: skip
    assert list(written.get("annotations", {})) == sorted(annotations)


@pytest.mark.parametrize(
    ("systems", "offered", "remedy"),
    [
        (["unknown/unknown"], "nothing", "an image for linux/amd64"),
        (["linux/arm64", "windows/amd64", "unknown/unknown"], "linux/arm64, windows/amd64",
         "an image for linux/amd64 or --platform linux/arm64"),
    ],
)  # fmt: skip
def test_what_an_index_offers_is_said(systems: list[str], offered: str, remedy: str) -> None:
    rows = [{**entry("amd64"), "platform": dict(zip(("os", "architecture"), one.split("/"), strict=True))}
            for one in systems]  # fmt: skip

    with pytest.raises(UserFault) as caught:
        choose_entry(rows, "it", AMD64)
    assert (caught.value.value, caught.value.remedy) == (f"it (it has {offered})", remedy)
