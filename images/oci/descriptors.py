"""Descriptors: how manifests and indexes name a blob (OCI image specification 1.1, "Content Descriptors"), as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from images.host.errors import WorldFault
from images.oci.reference import DIGEST

KEYS = ("mediaType", "digest", "size")
DAMAGED = "another image, or ask whoever pushed it: this one cannot be read by any engine either"


@dataclass(frozen=True)
class Descriptor:
    """A blob that a manifest names: digest (`sha256:` and hexadecimal) and size in bytes."""

    media_type: str
    digest: str
    size: int

    @property
    def sha256(self) -> str:
        return self.digest.removeprefix("sha256:")


def list_of(raw: Mapping[str, Any], key: str, name: str) -> list[object]:
    value = raw.get(key)
    if not isinstance(value, list):
        raise WorldFault("a manifest is damaged", f"{name} (no list of {key})", DAMAGED)
    return value


def mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WorldFault("a manifest is damaged", f"{name} ({str(value)[:40]!r} in place of an object)", DAMAGED)
    return value


def parse_descriptor(value: object, name: str) -> Descriptor:
    entry = mapping(value, name)
    media_type, digest, size = (entry.get(key) for key in KEYS)
    is_digest = isinstance(digest, str) and DIGEST.fullmatch(digest)
    if isinstance(media_type, str) and is_digest and type(size) is int and size >= 0:
        return Descriptor(media_type, str(digest), size)
    stated = {key: entry.get(key) for key in KEYS}
    raise WorldFault("a manifest is damaged", f"{name} ({str(stated)[:200]})", DAMAGED)


def descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    """Return a content descriptor as an object of JSON; `size` is in bytes."""
    return {"mediaType": media_type, "digest": digest, "size": size}


def described(media_type: str, data: bytes) -> dict[str, Any]:
    """Return the descriptor of bytes."""
    return descriptor(media_type, digest_of(data), len(data))


def digest_of(data: bytes) -> str:
    """Return the digest of bytes as the specification writes it: sha256:<hexadecimal>."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def encode(value: object) -> bytes:
    """Return the one JSON text of a value, so that equal images have equal digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
