"""What the expert's Dockerfile is given: a context with the wheels of our bundle, and the base of our image."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.commands import ROOT, call

FILE = Path(__file__).with_name("Dockerfile")
BASE = "multinode-benchmark-base:latest"
THEIRS = "multinode-benchmark-theirs"
# What changes rarely is a layer of its own below the rest.
STABLE = ("torch", "impi_rt", "intel_openmp", "intel_cmplr_lib_ur", "umf", "tcmlib", "pip")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def context(place: Path, bundle: Path) -> Path:
    """Lay out a build context: links to the wheels of a bundle, and the entrypoint as it is in this repository."""
    for wheel in (bundle / "wheels").iterdir():
        project = wheel.name.partition("-")[0].lower()
        directory = place / ("stable" if project in STABLE else "changing")
        directory.mkdir(parents=True, exist_ok=True)
        os.link(wheel, directory / wheel.name)
        if project == "pip":
            (place / "pip").mkdir()
            os.link(wheel, place / "pip" / "pip.whl")
    own = place / "own"
    shutil.copytree(ROOT / "entrypoint", own / "opt" / "multinode", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("etc", "usr"):
        shutil.copytree(ROOT / "images" / "rootfs" / name, own / name)
    return place


def mark(place: Path, number: int) -> None:
    """Make BuildKit forget earlier runs, but not the layer below within one run: a mounted file is part of its key."""
    for directory in ("stable", "changing"):
        (place / directory / "run").write_text(f"{os.getpid()} {number}")


def load_base(layout: Path, place: Path) -> None:
    """Load the lowest layer of our image, which is the Debian base, into the engine as an image of its own."""
    index = json.loads((layout / "index.json").read_text())
    manifest = _blob(layout, index["manifests"][0]["digest"])
    config = _blob(layout, manifest["config"]["digest"])
    identity = config["rootfs"]["diff_ids"][0]
    shutil.copytree(layout, place, ignore=lambda directory, names: names if Path(directory).name == "sha256" else [])
    size = _unpack(_place(layout, manifest["layers"][0]["digest"]), _place(place, identity))
    lowest = {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": identity, "size": size}
    rootfs = {"type": "layers", "diff_ids": [identity]}
    small = {"architecture": "amd64", "os": "linux", "config": {"Env": [PATH]}, "rootfs": rootfs}
    settings = _write(place, manifest["config"], small)
    described = _write(place, index["manifests"][0], {**manifest, "config": settings, "layers": [lowest]})
    (place / "index.json").write_text(json.dumps({**index, "manifests": [described]}))
    call(["skopeo", "copy", "--quiet", f"oci:{place}", f"docker-daemon:{BASE}"])


def _blob(layout: Path, digest: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_place(layout, digest).read_bytes())
    return found


def _place(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def _unpack(source: Path, target: Path) -> int:
    """Decompress a layer, for skopeo gives Docker no zstd; return its size."""
    with source.open("rb") as compressed, target.open("wb") as file:
        return zstandard.ZstdDecompressor().copy_stream(compressed, file)[1]


def _write(layout: Path, descriptor: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """Write a blob; return the descriptor with its digest and size."""
    data = json.dumps(content).encode()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    _place(layout, digest).write_bytes(data)
    return {"mediaType": descriptor["mediaType"], "digest": digest, "size": len(data)}
