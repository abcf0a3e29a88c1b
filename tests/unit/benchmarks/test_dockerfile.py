"""What the expert's Dockerfile is given."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import zstandard

from benchmarks import dockerfile
from images.host.store import sha256


def test_wheels_that_change_rarely_lie_apart(tmp_path: Path) -> None:
    names = ("torch-2.13.0+cpu-x.whl", "transformers-5.23.0-x.whl", "pip-26.3-x.whl", "impi_rt-2021.18.0-x.whl")
    (tmp_path / "bundle/wheels").mkdir(parents=True)
    for name in names:
        (tmp_path / "bundle/wheels" / name).write_text(name)

    place = dockerfile.context(tmp_path / "context", tmp_path / "bundle")

    found = {path.relative_to(place).as_posix() for path in place.rglob("*.whl")}
    assert found == {
        "stable/torch-2.13.0+cpu-x.whl", "stable/pip-26.3-x.whl", "stable/impi_rt-2021.18.0-x.whl",
        "changing/transformers-5.23.0-x.whl", "pip/pip.whl",
    }  # fmt: skip
    assert (place / "own/opt/multinode/__main__.py").is_file()


def test_a_run_does_not_use_what_an_earlier_one_left(tmp_path: Path) -> None:
    for name in ("stable", "changing"):
        (tmp_path / name).mkdir()

    marks = []
    for number in (0, 1):
        dockerfile.mark(tmp_path, number)
        marks.append((tmp_path / "stable/run").read_text())

    assert marks[0] != marks[1]


LOW, HIGH = (f"sha256:{hashlib.sha256(text).hexdigest()}" for text in (b"low", b"high"))


def layout(place: Path) -> None:
    """Write an OCI layout of two layers, as our builds write them."""
    (place / "blobs/sha256").mkdir(parents=True)

    def blob(data: bytes, media: str) -> dict[str, object]:
        (place / "data").write_bytes(data)
        digest = sha256(place / "data")
        (place / "data").rename(place / "blobs/sha256" / digest)
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    media = "application/vnd.oci.image.layer.v1.tar+zstd"
    layers = [blob(zstandard.compress(text), media) for text in (b"low", b"high")]
    config = blob(
        json.dumps({"rootfs": {"diff_ids": [LOW, HIGH]}}).encode(),
        "application/vnd.oci.image.config.v1+json",
    )
    manifest = blob(
        json.dumps({"schemaVersion": 2, "config": config, "layers": layers}).encode(),
        "application/vnd.oci.image.manifest.v1+json",
    )
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))


def test_the_base_is_the_lowest_layer_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout(tmp_path / "image")
    called = list[list[str]]()
    monkeypatch.setattr(dockerfile, "call", called.append)

    dockerfile.load_base(tmp_path / "image", tmp_path / "base")

    blobs = {path.name for path in (tmp_path / "base/blobs/sha256").iterdir()}
    assert len(blobs) == 3  # layer, configuration, manifest
    index = json.loads((tmp_path / "base/index.json").read_text())
    manifest = json.loads(dockerfile._place(tmp_path / "base", index["manifests"][0]["digest"]).read_text())
    config = json.loads(dockerfile._place(tmp_path / "base", manifest["config"]["digest"]).read_text())
    assert [(layer["digest"], layer["size"]) for layer in manifest["layers"]] == [(LOW, 3)]
    assert config["rootfs"]["diff_ids"] == [LOW]
    assert dockerfile._place(tmp_path / "base", LOW).read_bytes() == b"low"
    assert called == [["skopeo", "copy", "--quiet", f"oci:{tmp_path / 'base'}", f"docker-daemon:{dockerfile.BASE}"]]
