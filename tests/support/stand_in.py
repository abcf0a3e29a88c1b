"""A small image that stands in for Intel's: same paths, none of the content."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

SITE = "usr/local/lib/python3.10/dist-packages"
IPEX = f"{SITE}/intel_extension_for_pytorch"
LIBRARY = "usr/lib/x86_64-linux-gnu"
KIND = "application/vnd.oci.image"

RECORD = """\
intel_extension_for_pytorch-2.3.0+cpu.dist-info/METADATA,,
intel_extension_for_pytorch-2.3.0+cpu.dist-info/RECORD,,
intel_extension_for_pytorch/__init__.py,sha256=AAAA,3
intel_extension_for_pytorch/__pycache__/__init__.cpython-310.pyc,,
intel_extension_for_pytorch/lib/libintel-ext-pt-cpu.so,,
../../../bin/ipexrun,,
"""
STATUS = """\
Package: libc6
Status: install ok installed
Version: 2.35-0ubuntu3.8

Package: openssh-server
Status: install ok installed
Version: 1:8.9p1-3ubuntu0.10
"""


class Directory(NamedTuple):
    """A directory whose mode or owner is not the usual one."""

    mode: int = 0o755
    uid: int = 0
    gid: int = 0


# A value that is a str is where a link leads to, None a directory.
Files = Mapping[str, "bytes | str | Directory | None"]
SYSTEM: Files = {
    "bin": "usr/bin",
    "lib": "usr/lib",
    "lib64": "usr/lib64",
    "etc": None,
    "etc/passwd": b"root:x:0:0:root:/root:/bin/bash\n",
    "etc/group": b"root:x:0:\n",
    "etc/os-release": "../usr/lib/os-release",
    "usr/lib/os-release": b'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n',
    "usr/bin/dash": b"a shell",
    "usr/bin/sh": "dash",
    "usr/bin/python3.10": b"an interpreter",
    "usr/bin/python3": "python3.10",
    "usr/lib/python3/dist-packages/six-1.16.0.egg-info": b"Metadata-Version: 1.2\nName: six\nVersion: 1.16.0\n",
    f"{LIBRARY}/libc.so.6": b"an ELF file without the words that the real one has",
    "usr/sbin/sshd": b"a server",
    "var/lib/dpkg/status": STATUS.encode(),
    "tmp/left": b"by an installation",
}
PACKAGES: Files = {
    "etc/ssh/sshd_config": b"# ours\nPort 3022\nLogLevel DEBUG3\n",
    "tmp/.wh.left": b"",
    "usr/local/bin/ipexrun": b"#!/usr/bin/python3\n",
    f"{SITE}/intel_extension_for_pytorch-2.3.0+cpu.dist-info/METADATA": b"Name: intel_extension_for_pytorch\n",
    f"{SITE}/intel_extension_for_pytorch-2.3.0+cpu.dist-info/RECORD": RECORD.encode(),
    f"{IPEX}/__init__.py": b"1\n",
    f"{IPEX}/__pycache__/__init__.cpython-310.pyc": b"compiled",
    f"{IPEX}/lib/libintel-ext-pt-cpu.so": random.Random(0).randbytes(400_000),  # which no compression makes smaller
    f"{SITE}/oneccl_bind_pt-2.4.0+cpu.dist-info/RECORD": b"oneccl_bindings_for_pytorch/__init__.py,,\n",
    f"{SITE}/oneccl_bindings_for_pytorch/__init__.py": b"2\n",
}
SETTINGS = {
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
    "Entrypoint": ["/usr/local/bin/dockerd-entrypoint.sh"],
    "Labels": {"org.opencontainers.image.vendor": "a stand-in"},
}


def layer(files: Files) -> bytes:
    """Write files as a tar."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            if content is None or isinstance(content, Directory):
                info.type = tarfile.DIRTYPE
                info.mode, info.uid, info.gid = content or Directory()
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
            else:
                info.size, info.mode = len(content), 0o755 if content.startswith(b"#!") else 0o644
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return stream.getvalue()


def packed(tar: bytes, compression: str) -> bytes:
    """Compress a layer; equal input, equal bytes."""
    if compression == "gzip":
        return gzip.compress(tar, mtime=0)
    return zstandard.ZstdCompressor().compress(tar) if compression == "zstd" else tar


class Part(NamedTuple):
    """A layer as registries have it: how it is compressed, the digest of its tar, and its bytes."""

    compression: str
    diff_id: str
    data: bytes


class Image:
    """An image as registries have it: `blobs` by their digests, and the digest of the manifest."""

    def __init__(
        self, layers: Sequence[Files] = (SYSTEM, PACKAGES), compression: str = "gzip", architecture: str = "amd64",
        **changes: Any,
    ) -> None:  # fmt: skip
        self.tars = [layer(files) for files in layers]
        parts = [Part(compression, digest(tar), packed(tar, compression)) for tar in self.tars]
        self._write(parts, {"architecture": architecture, **changes})

    @classmethod
    def of(cls, parts: Sequence[Part], **changes: Any) -> Image:
        """Make an image of layers as they are."""
        image = cls.__new__(cls)
        image.tars = []
        image._write(parts, changes)
        return image

    def _write(self, parts: Sequence[Part], changes: Mapping[str, Any]) -> None:
        self.blobs: dict[str, bytes] = {}
        rows = [self._add(f"layer.v1.tar{_suffix(part.compression)}", part.data) for part in parts]
        rootfs = {"type": "layers", "diff_ids": [part.diff_id for part in parts]}
        self.config = {"architecture": "amd64", "os": "linux", "config": SETTINGS, "rootfs": rootfs, **changes}
        config = self._add("config.v1+json", json.dumps(self.config).encode())
        manifest = {"schemaVersion": 2, "mediaType": f"{KIND}.manifest.v1+json", "config": config, "layers": rows}
        self.entry = self._add("manifest.v1+json", json.dumps(manifest).encode())
        self.digest: str = self.entry["digest"]
        self.layers: list[str] = [row["digest"] for row in rows]

    def _add(self, kind: str, data: bytes) -> dict[str, Any]:
        self.blobs[digest(data)] = data
        return {"mediaType": f"{KIND}.{kind}", "digest": digest(data), "size": len(data)}


def _suffix(compression: str) -> str:
    return "" if compression == "none" else f"+{compression}"


def digest(data: bytes | bytearray) -> str:
    """Name bytes as registries do."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layout(images: Mapping[str, Image]) -> dict[str, bytes]:
    """Write images by their tags as the files of one OCI layout."""
    names = "org.opencontainers.image.ref.name"
    entries = [{**image.entry, "annotations": {names: tag}} for tag, image in images.items()]
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    for image in images.values():
        files |= {"blobs/" + name.replace(":", "/"): data for name, data in image.blobs.items()}
    return files


def saved(image: Image) -> dict[str, bytes]:
    """Write an image as the files of an archive by `docker save` before Docker 25."""
    paths = [f"{number:064x}/layer.tar" for number in range(len(image.tars))]
    entry = {"Config": "config.json", "RepoTags": ["stand-in:1"], "Layers": paths}
    files = dict(zip(paths, image.tars, strict=True))
    return {**files, "config.json": json.dumps(image.config).encode(), "manifest.json": json.dumps([entry]).encode()}


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files to disk."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write files as an archive."""
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def derived(source: Path, upper: Files) -> Image:
    """Stand a layer of files on the lowest layer of an image in a layout.

    The lowest layer stays as it is, zstd; the one above it is gzip, and the configuration says no history.
    """
    tar = layer(upper)
    return Image.of([Layout(source).parts[0], Part("gzip", digest(tar), packed(tar, "gzip"))])


class Layout:
    """The one image in an OCI layout, as it is on disk."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.index = json.loads((place / "index.json").read_bytes())
        self.manifest = json.loads(self.blob(self.index["manifests"][0]["digest"]).read_bytes())
        self.config = json.loads(self.blob(self.manifest["config"]["digest"]).read_bytes())

    def blob(self, name: str) -> Path:
        """Return the file of a blob."""
        return self.place / "blobs" / name.replace(":", "/")

    @property
    def layers(self) -> list[Path]:
        """Return the files of the layers, the lowest first."""
        return [self.blob(row["digest"]) for row in self.manifest["layers"]]

    @property
    def parts(self) -> list[Part]:
        """Read the layers, the lowest first."""
        kinds = [row["mediaType"].rpartition("+")[2] for row in self.manifest["layers"]]
        data = [path.read_bytes() for path in self.layers]
        return list(map(Part, kinds, self.config["rootfs"]["diff_ids"], data))

    def save(self) -> None:
        """Write the configuration and the manifest as they have been changed."""
        self.manifest["config"] |= self.put(json.dumps(self.config).encode())
        self.index["manifests"][0] |= self.put(json.dumps(self.manifest).encode())
        (self.place / "index.json").write_text(json.dumps(self.index))

    def put(self, data: bytes) -> dict[str, Any]:
        """Write a blob; return its digest and size."""
        self.blob(digest(data)).write_bytes(data)
        return {"digest": digest(data), "size": len(data)}
