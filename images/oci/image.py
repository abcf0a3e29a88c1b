"""Layers -> image: configuration and manifest (OCI image specification 1.0), and the files that engines read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from images.oci.layer import Written

MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True)
class Part:
    """One layer of an image: its name, what was written, and whether it was there already.

    `packed` is how a layer of somebody else's base is compressed, which it stays; ours are zstd in the store.
    """

    name: str
    written: Written
    reused: bool
    packed: str | None = None


@dataclass(frozen=True)
class Image:
    """A finished image; `id` is the digest of the configuration, `digest` that of the manifest in registry form."""

    tag: str
    config: bytes
    manifest: bytes
    parts: tuple[Part, ...]

    @property
    def id(self) -> str:
        return digest_of(self.config)

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def digest_of(data: bytes) -> str:
    """Name bytes as the specification does: sha256:<hexadecimal>."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def encode(value: object) -> bytes:
    """Write JSON in one way only, so that equal images have equal digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def config(
    parts: Sequence[Part], settings: Mapping[str, Any], created: str, below: Sequence[Mapping[str, Any]] = ()
) -> bytes:
    """Write the configuration; `settings` is the part that a container starts from, `created` an RFC 3339 time.

    `below` is the history of somebody else's base, which speaks for its layers.
    """
    ours = [part for part in parts if part.packed is None]
    history = [*below, *({"created": created, "created_by": f"multinode: {part.name}"} for part in ours)]
    diff_ids = [f"sha256:{part.written.diff_id}" for part in parts]
    return encode(
        {
            "architecture": "amd64",
            "os": "linux",
            "created": created,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }
    )


def manifest(config: bytes, layers: Sequence[tuple[str, int, str]]) -> bytes:
    """Write the manifest over layers given as (sha256 in hexadecimal, bytes, compression: none, gzip or zstd)."""
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": descriptor(f"{MEDIA}.config.v1+json", digest_of(config), len(config)),
            "layers": [
                descriptor(f"{MEDIA}.layer.v1.tar{_suffix(compression)}", f"sha256:{digest}", size)
                for digest, size, compression in layers
            ],
        }
    )


def _suffix(compression: str) -> str:
    return "" if compression == "none" else f"+{compression}"


def index(manifest: bytes, tag: str) -> bytes:
    """Write the index of a layout with one image in it."""
    entry = descriptor(f"{MEDIA}.manifest.v1+json", digest_of(manifest), len(manifest))
    name = {"org.opencontainers.image.ref.name": tag.rpartition(":")[2], "io.containerd.image.name": tag}
    entry |= {"annotations": name, "platform": {"architecture": "amd64", "os": "linux"}}
    return encode({"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": [entry]})


def docker_manifest(config: bytes, diff_ids: Sequence[str], tag: str) -> bytes:
    """Write the manifest.json that `docker load` of every age reads (Docker image specification v1.2)."""
    blobs = [f"blobs/sha256/{diff_id}" for diff_id in diff_ids]
    name = digest_of(config).removeprefix("sha256:")
    return encode([{"Config": f"blobs/sha256/{name}", "RepoTags": [tag], "Layers": blobs}])


def descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    """Write a content descriptor."""
    return {"mediaType": media_type, "digest": digest, "size": size}
