"""Read what is in a finished image: one that an engine has, an archive, a layout, or one in a registry."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from images.base import pulled
from images.foreign import tars
from images.host.context import Access
from images.host.errors import UserFault
from images.host.store import Store
from images.oci import compression, engine, manifest, reference

LOCK = "opt/multinode/pylock.toml"
SBOM = "opt/multinode/sbom.cdx.json"
LONGEST = 64 << 20  # bytes: of the lock or the SBOM; real ones have some hundred kilobytes


@dataclass(frozen=True)
class Inside:
    """An opened image: its name, its manifest and configuration as they are, and its layers from the lowest."""

    name: str
    manifest: bytes
    raw_config: bytes
    layers: tuple[Path, ...]

    @property
    def config(self) -> Mapping[str, Any]:
        """Return the configuration."""
        found: Mapping[str, Any] = json.loads(self.raw_config)
        return found

    @property
    def id(self) -> str:
        """Return the digest of the configuration, by which podman and Docker's own store know the image."""
        return manifest.digest_of(self.raw_config)

    def file(self, path: str) -> bytes:
        """Read a file that build.py wrote, which is in one of the highest layers.

        Raises UserFault when it is not there: build.py did not make the image.
        """
        for layer in reversed(self.layers):
            for info, data in entries(layer):
                if info.name.removeprefix("./") == path and data is not None:
                    return data.read(LONGEST)
        remedy = "an image that build.py made (for a derived one: its base)"
        raise UserFault("this image was not made here", f"{self.name} (no /{path})", remedy)


def entries(layer: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield the entries of a layer with their data, which must be read before the next one.

    Raises WorldFault when it is not a whole tar.
    """
    with compression.untarred(layer) as (tar, _):
        for info in tars.entries(tar):
            yield info, tar.extractfile(info) if info.isreg() else None


@contextmanager
def opened(name: str, store: Store, access: Access) -> Iterator[Inside]:
    """Open an image by what the user calls it: a path, a name in an engine here, a name in a registry.

    Its layers are copied aside and gone afterwards.
    """
    with store.aside(directory=True) as place:
        named = _on_disk(name) or _exported(name, place / "image.tar", access.environ) or reference.parse(name)
        found = pulled.contents(named, Store(place), access, lambda _: None)
        yield Inside(name, found.manifest, found.config, found.layers)


def _on_disk(name: str) -> reference.Reference | None:
    path = Path(name)
    if path.is_dir():
        return reference.Directory(str(path))
    return reference.Archive(str(path)) if path.is_file() else None


def _exported(name: str, place: Path, environ: Mapping[str, str]) -> reference.Reference | None:
    """Let an engine write out an image that it has.

    Raises UserFault when that is no name of an image.
    """
    if name.startswith(("oci:", "archive:")):
        return None
    reference.parse(name)  # what is no name in a registry is none in an engine
    found = engine.find(environ)
    return reference.Archive(str(place)) if found and engine.save(found, name, place) else None
