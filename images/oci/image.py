"""A finished image: its layers, its configuration and its names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from images.oci.layer import Written
from images.oci.manifest import digest_of, encode


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
    """A finished image; `id` is the digest of the configuration, `digest` that of the manifest in registry form.

    `tags` are its names, such as NAME:TAG or HOST/NAME:TAG, at least one.
    """

    tags: tuple[str, ...]
    config: bytes
    manifest: bytes
    parts: tuple[Part, ...]

    @property
    def tag(self) -> str:
        """Return the first of its names, which is the one that is shown."""
        return self.tags[0]

    @property
    def id(self) -> str:
        return digest_of(self.config)

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


def config(
    parts: Sequence[Part], settings: Mapping[str, Any], created: str, below: Sequence[Mapping[str, Any]] = ()
) -> bytes:
    """Write the configuration; `settings` is the part that a container starts from, `created` an RFC 3339 time.

    `below` is the history of somebody else's base, which speaks for its layers.
    """
    own = [part for part in parts if part.packed is None]
    history = [*below, *({"created": created, "created_by": f"multinode: {part.name}"} for part in own)]
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
