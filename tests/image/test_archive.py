"""What engines and other tools make of an image: loaded by build.py, and as an archive."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import EXAMPLES, IMAGES, built, call
from tests.support.programs import needs


def test_json_says_what_was_built(image: str) -> None:
    answer = built("--examples", str(EXAMPLES), "--tag", image)

    assert answer.keys() == {
        "image", "tags", "id", "digest", "archive", "loaded", "pushed", "layers", "size", "unpacked", "seconds",
    }  # fmt: skip
    assert answer["image"] == image and answer["tags"] == [image] and answer["pushed"] == []
    assert answer["archive"] is None and answer["loaded"] == "docker"
    assert [layer["name"] for layer in answer["layers"]][:4] == [
        "debian base", "debian bytecode", "intel runtime", "torch",
    ]  # fmt: skip
    assert all(layer["reused"] and layer["size"] > 0 for layer in answer["layers"])
    inspected = json.loads(call(["docker", "inspect", image]).out)[0]
    assert inspected["Id"] == answer["id"]
    assert inspected["Config"]["Labels"]["multinode.torch"] == "2.13.0+cpu"


def test_a_build_has_every_name_that_it_was_given(image: str) -> None:
    names = [f"{IMAGES}:four", f"localhost:5000/{IMAGES}:five"]

    answer = built("--examples", str(EXAMPLES), *(word for name in names for word in ("--tag", name)))

    loaded = [call(["docker", "image", "inspect", "--format", "{{.Id}}", name]).out.strip() for name in names]
    assert call(["docker", "rmi", *names]).code == 0
    assert (answer["image"], answer["tags"]) == (names[0], names)
    assert loaded == [answer["id"]] * 2


@pytest.fixture(scope="module")
def archive(module_path: Path) -> Path:
    path = module_path / "image.tar"
    built("--examples", "none", "--no-load", "--tag", f"{IMAGES}:archive", "--output", str(path))
    return path


@pytest.mark.slow  # build.py loads images into Docker by the same stream
def test_docker_loads_the_archive(archive: Path, engine: None) -> None:
    assert call(["docker", "load", "--input", str(archive)]).code == 0
    assert call(["docker", "run", "--rm", "--network", "none", f"{IMAGES}:archive", "true"]).code == 0
    call(["docker", "rmi", "--force", f"{IMAGES}:archive"])


@pytest.mark.slow
@needs("podman")
def test_podman_loads_the_archive(archive: Path) -> None:
    assert call(["podman", "load", "--input", str(archive)]).code == 0
    assert call(["podman", "rmi", "--force", f"{IMAGES}:archive"]).code == 0


@needs("skopeo")
def test_skopeo_reads_it(archive: Path) -> None:
    for transport in ("docker-archive", "oci-archive"):
        assert call(["skopeo", "inspect", f"{transport}:{archive}"]).code == 0


@pytest.mark.slow
@needs("umoci")
def test_umoci_unpacks_it(archive: Path, tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    layout.mkdir()
    assert call(["tar", "--extract", "--file", str(archive), "--directory", str(layout)]).code == 0
    assert call(["umoci", "stat", "--image", f"{layout}:archive"]).code == 0
    assert call(["umoci", "unpack", "--image", f"{layout}:archive", str(tmp_path / "bundle")]).code == 0
    assert (tmp_path / "bundle/rootfs/usr/local/bin/torchrun").is_file()


def layers(archive: Path) -> Iterator[tarfile.TarFile]:
    """Open the layers of an archive, one after another."""
    with tarfile.open(archive) as image:
        for name in [info.name for info in image if info.name.startswith("blobs/") and info.isreg()]:
            blob = image.extractfile(name)
            assert blob
            if blob.read(1) == b"{":
                continue
            blob.seek(0)
            with tarfile.open(fileobj=blob) as layer:
                yield layer


def test_no_key_no_log_no_identity_in_any_layer(archive: Path) -> None:
    for layer in layers(archive):
        _no_secret(layer)


def _no_secret(layer: tarfile.TarFile) -> None:
    for info in layer:
        assert "ssh_host_" not in info.name
        assert info.name not in ("etc/machine-id", "etc/resolv.conf", "etc/hostname", ".dockerenv")
        assert not info.name.startswith(
            ("var/log/", "var/lib/apt/lists/", "var/cache/apt/", "root/.ssh", "root/.cache")
        )
        file = layer.extractfile(info) if info.isreg() and info.size < 100_000 else None
        if file and not info.name.endswith((".py", ".pyc", ".so", ".md")):
            assert b"PRIVATE KEY-----\n" not in file.read(), info.name
