"""Where images go: a path that the user means, or a registry, to and from which only missing blobs travel.

That a blob has its digest is checked by skopeo, which gives it no name before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from images.context import Access
from images.deliver.skopeo import Server
from images.host.errors import Fault, UserFault, WorldFault
from images.host.files import hard_link, replacing, require_writable
from images.oci.image import Image, published_digest, write_archive, write_layout
from images.oci.manifest import LIMIT, ON_THE_WAY, Descriptor, Manifest, digest_of, require_digest
from images.oci.reference import Remote
from images.store.download import Advance
from images.store.store import Store

UNHEARD = ("plain", "certificate", "silent")  # kinds of faults where a registry has said nothing


class Repository:
    """One image name in a registry."""

    def __init__(self, remote: Remote, store: Store, access: Access, aside: Path) -> None:
        self._remote, self._store, self._aside = remote, store, aside
        self._server = Server(remote, access, aside)

    def manifest(self, digest: str | None) -> bytes:
        """Return a manifest or an index by digest, or for None the one that the reference means."""
        known = digest or self._remote.digest
        called = known or self._remote.tag or "latest"
        data = self._server.inspect(called)
        if known:
            require_digest(data, known, self._remote.called(called))
        return data

    def config(self, image: Manifest, advance: Advance) -> Path:
        """Fetch the configuration of an image into the store, unless it is there undamaged."""
        if path := self._store.verified(image.config.sha256, "blob"):
            return path
        data = self._server.inspect(image.digest, "--config")
        advance(len(data))
        with self._store.temporary() as path:
            path.write_bytes(data)
            return self._store.keep(path, image.config.sha256)

    def layers(self, image: Manifest, advance: Advance) -> list[Path]:
        """Fetch the layers of an image into the store, but for those that are there undamaged."""
        missing = [layer for layer in image.layers if self._store.verified(layer.sha256, "blob") is None]
        if missing:
            self._pull(image, missing, advance)
        return [self._store.place(layer.sha256) for layer in image.layers]

    def _pull(self, image: Manifest, missing: Sequence[Descriptor], advance: Advance) -> None:
        shared = self._aside / "shared" / "sha256"
        shared.mkdir(parents=True, exist_ok=True)
        for layer in image.layers:
            path = self._store.blob(layer.sha256)
            if path and not (shared / layer.sha256).exists():
                hard_link(path, shared / layer.sha256)
        most = sum(layer.size for layer in missing) + LIMIT  # of the configuration, which comes with them
        finished, written = [shared / layer.sha256 for layer in missing], self._aside / "layout"
        seen = 0

        def tick() -> None:
            nonlocal seen
            came = sum(map(_size, (*finished, *written.glob("oci-put-blob*"))))
            if came > most:
                value = f"{self._remote} ({came} bytes of {most})"
                raise WorldFault("a registry sends more than the manifest says", value, ON_THE_WAY)
            if came > seen:
                advance(came - seen)
                seen = came

        try:
            self._server.pull(image.digest, most, tick)
            tick()
        finally:  # what has come whole stays, even where the rest has not come
            for layer in missing:
                if self._store.blob(layer.sha256) is None and (shared / layer.sha256).exists():
                    self._store.keep(shared / layer.sha256, layer.sha256)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # not there yet, or finished and renamed just now
        return 0


@contextmanager
def repository(remote: Remote, store: Store, access: Access) -> Iterator[Repository]:
    """Open a repository to pull from; what is private or half-written is gone afterwards."""
    with store.temporary(directory=True) as aside:
        yield Repository(remote, store, access, aside)


def push(images: Sequence[Image], target: Remote, store: Store, access: Access, compression: str) -> None:
    """Push an image, one for each platform, in registry form: only what the registry lacks travels, the tag goes last.

    Where the tag is this image's already, that is as good, in whatever words a registry refuses to replace one.
    Raises UserFault when the user may not push there, WorldFault when it cannot be done. Raises Damaged when the store
    has another layer than it should.
    """
    tag = target.tag or "latest"
    # skopeo takes a layout's only entry without a tag
    alone = [replace(image, tags=image.tags[:1]) for image in images]
    with store.temporary(directory=True) as aside:
        write_layout(aside / "layout", alone, store, compression, linked=True)
        server = Server(target, access, aside)
        try:
            server.push(tag)
        except Fault as fault:
            if fault.kind in UNHEARD or not _has_tag(server, tag, published_digest(images)):
                raise
            access.say(f"note: {target} was this image already")


def _has_tag(server: Server, tag: str, digest: str) -> bool:
    try:
        return digest_of(server.inspect(tag)) == digest
    except Fault:  # why the push was refused says more
        return False


# What the user means by a path for an image, and how the image gets there.


@dataclass(frozen=True)
class Target:
    """Where an image is written to: a path without links, and whether it becomes a layout or an archive there."""

    path: Path
    is_layout: bool


def parse_target(text: str) -> Target:
    """Return what the user means by a path: a layout where it ends in `/` or is a directory, an archive elsewhere.

    Raises UserFault for what is there and is no archive and no layout (a device, a pipe, a directory of other things),
    and where nothing can be written: the lock goes beside it.
    """
    given, path = Path(text), Path(os.path.realpath(text))
    is_layout = text.endswith("/") or path.is_dir()
    if given.exists() and not (given.is_dir() if is_layout else given.is_file()):
        kind = "directory" if is_layout else "file"
        raise UserFault(f"what is there is not a {kind}", text, "--output with a path that is new, or an archive")
    if not path.parent.is_dir():
        raise UserFault("no such directory", path.parent, "--output with a path in a directory that exists")
    require_writable(path.parent)
    if path.is_dir():
        require_writable(path)
        if any(path.iterdir()) and not (path / "oci-layout").is_file():
            remedy = "--output with one that is new, empty or a layout"
            raise UserFault("that directory has other things in it", text, remedy)
    return Target(path, is_layout)


def save_images(place: Target, images: Sequence[Image], store: Store, compression: str) -> None:
    """Write an image to its place; what is there already stays as it was until the new one is whole.

    A layout takes one for each of several platforms.
    """
    if place.is_layout:
        write_layout(place.path, images, store, compression)
    else:
        with replacing(place.path) as aside:
            write_archive(aside, images[0], store)
