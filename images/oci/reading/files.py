"""An image in files that others wrote: what is read of them, and how its parts come into the store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from images.foreign import tars
from images.host.download import Advance
from images.host.errors import UserFault, WorldFault
from images.host.store import CHUNK, Store
from images.model import Descriptor, Manifest
from images.oci.manifest import LIMIT

AGAIN = "copy or save the image again: the file is damaged"
REMEDY = "oci:DIRECTORY with index.json in it, or archive:FILE from docker save"


@dataclass(frozen=True)
class Files:
    """The files of an image by their paths; `name` is what messages call it, `remedy` what to type if one is missing.

    `open` raises KeyError or FileNotFoundError for a path that is no file.
    """

    name: str
    remedy: str
    open: Callable[[str], IO[bytes]]

    def chunks(self, path: str, most: int | None = None) -> Iterator[bytes]:
        """Yield the content of a file.

        Raises UserFault where it is missing, WorldFault where it cannot be read or has more than `most` bytes.
        """
        try:
            file = self.open(path)
        except (KeyError, FileNotFoundError) as error:
            raise UserFault("the image is not whole", f"{self.name} (no {path})", self.remedy) from error
        size = 0
        try:
            with file:
                while chunk := file.read(CHUNK):
                    size += len(chunk)
                    if most is not None and size > most:
                        value = f"{self.name} (more than {most} bytes)"
                        raise WorldFault("a file of the image is too long", value, AGAIN)
                    yield chunk
        except tars.CONTENT as error:
            raise WorldFault("a file of the image cannot be read", f"{self.name} ({error})", AGAIN) from error

    def read(self, path: str) -> bytes:
        """Return the content of a document, as `chunks` does."""
        return b"".join(self.chunks(path, LIMIT))


@dataclass(frozen=True)
class OnDisk:
    """An image on disk, whose parts are copied into the store, but for those that are there undamaged.

    `manifest` returns a manifest or an index by digest, or for None the one that is meant; `place` the path of a part;
    `check` raises a Fault where the files say of another image, too, that it is the one.
    """

    files: Files
    store: Store
    manifest: Callable[[str | None], bytes]
    place: Callable[[str], str]
    check: Callable[[Manifest], None] = lambda _: None

    def config(self, found: Manifest, advance: Advance) -> Path:
        """Copy the configuration of an image that `manifest` named."""
        self.check(found)
        return self._copy(found.config, advance)

    def layers(self, found: Manifest, advance: Advance) -> list[Path]:
        """Copy the layers of an image that `manifest` named."""
        return [self._copy(layer, advance) for layer in found.layers]

    def _copy(self, part: Descriptor, advance: Advance) -> Path:
        if found := self.store.whole(part.sha256, "blob"):
            return found
        hashed = hashlib.sha256()
        with self.store.aside() as path:
            with path.open("wb") as file:
                for chunk in self.files.chunks(self.place(part.digest), part.size):
                    hashed.update(chunk)
                    file.write(chunk)
                    advance(len(chunk))
            if (got := hashed.hexdigest()) != part.sha256:
                value = f"{self.files.name}: {got}, not {part.sha256}"
                raise WorldFault("a blob has another sha256 than its name", value, AGAIN)
            return self.store.keep(path, got)


def listed(tags: Iterable[str]) -> str:
    """Return the tags of images for a message."""
    return ", ".join(dict.fromkeys(tag or "without a tag" for tag in tags))
