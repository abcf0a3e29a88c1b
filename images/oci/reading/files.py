"""An image in files that others wrote: what is read of them, and how its parts come into the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from images.foreign.files import Files
from images.oci.descriptors import Descriptor
from images.oci.manifest import Manifest
from images.store.blobs import BLOB, Advance, Blobs

REMEDY = "oci:DIRECTORY with index.json in it, or archive:FILE from docker save"


@dataclass(frozen=True)
class OnDisk:
    """An image on disk, whose parts are copied into the store, but for those that are there undamaged.

    `manifest` returns a manifest or an index by digest, or for None the one that is meant; `place` the path of a part;
    `check` raises a Fault where the files say of another image, too, that it is the one.
    """

    files: Files
    store: Blobs
    manifest: Callable[[str | None], bytes]
    place: Callable[[str], str]
    check: Callable[[Manifest], None] = lambda _: None

    def config(self, manifest: Manifest, advance: Advance) -> Path:
        """Copy the configuration of an image that `manifest` named."""
        self.check(manifest)
        return self._copy(manifest.config, advance)

    def layers(self, manifest: Manifest, advance: Advance) -> list[Path]:
        """Copy the layers of an image that `manifest` named."""
        return [self._copy(layer, advance) for layer in manifest.layers]

    def _copy(self, part: Descriptor, advance: Advance) -> Path:
        return self.files.keep(self.place(part.digest), (part.sha256, BLOB), self.store, part.size, advance)


def list_tags(tags: Iterable[str]) -> str:
    """Return the tags of images for a message."""
    return ", ".join(dict.fromkeys(tag or "without a tag" for tag in tags))
