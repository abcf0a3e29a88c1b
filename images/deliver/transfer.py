"""Images between registries and the store: only blobs that are missing travel, and the manifest goes last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from images.deliver.skopeo import Server
from images.host.context import Access
from images.host.disk.files import link
from images.host.download import Advance
from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store, sha256
from images.model import Descriptor, Image, Manifest
from images.oci import manifest
from images.oci.compression import of_registry
from images.oci.image import published_digest
from images.oci.layout_writer import write_layout
from images.oci.manifest import ON_THE_WAY, digest_of
from images.oci.reference import HOST, NAME, Place, Remote

# Docker speaks plain HTTP with these only; `docker pull` of any other host needs `insecure-registries`.
NEAR = re.compile(r"(localhost|127(\.[0-9]+){3}|\[::1\])(:[0-9]+)?")
LACKS = "the registry does not have what was pushed"
WHO = "check the address and proxy settings: a login page, or another server, may answer there in place of a registry"

Got = TypeVar("Got")


class Repository:
    """One image name in a registry, asked of the mirror first; a mirror that fails once is not asked again."""

    def __init__(self, remote: Remote, store: Store, access: Access, aside: Path) -> None:
        self._remote, self._store, self._access, self._aside = remote, store, access, aside
        places = [*([mirror_place(access.mirror, remote.name)] if access.mirror else []), origin(remote)]
        self._servers = [Server(place, store, access, aside) for place in places]

    def manifest(self, digest: str | None) -> bytes:
        """Return a manifest or an index by digest, or for None the one that the reference means."""
        known = digest or self._remote.digest
        return self._first(lambda server: self._manifest(server, known))

    def _manifest(self, server: Server, known: str | None) -> bytes:
        called = known or self._remote.tag or "latest"
        data, name = server.inspect(called), server.place.called(called)
        if known:
            manifest.check(data, known, name)
        manifest.read(data, name)  # what a mirror answers in place of a manifest is no reason not to ask the registry
        return data

    def config(self, found: Manifest, advance: Advance) -> Path:
        """Fetch the configuration of an image into the store, unless it is there undamaged."""
        if path := self._store.verified(found.config.sha256, "blob"):
            return path
        return self._first(lambda server: self._config(server, found, advance))

    def _config(self, server: Server, found: Manifest, advance: Advance) -> Path:
        data = server.inspect(found.digest, "--config")
        advance(len(data))
        with self._store.temporary() as path:
            path.write_bytes(data)
            return _keep(self._store, path, found.config, str(self._remote))

    def layers(self, found: Manifest, advance: Advance) -> list[Path]:
        """Fetch the layers of an image into the store, but for those that are there undamaged."""
        with self._store.locked(found.config.sha256):  # of two builds at once, one fetches and one waits
            missing = [layer for layer in found.layers if self._store.verified(layer.sha256, "blob") is None]
            if missing:
                self._first(lambda server: self._pull(server, found, missing, advance))
        return [self._store.place(layer.sha256) for layer in found.layers]

    def _pull(self, server: Server, found: Manifest, missing: Sequence[Descriptor], advance: Advance) -> None:
        shared = self._aside / "shared" / "sha256"
        shared.mkdir(parents=True, exist_ok=True)
        for layer in found.layers:
            path = self._store.blob(layer.sha256)
            if path and not (shared / layer.sha256).exists():
                link(path, shared / layer.sha256)
        most = sum(layer.size for layer in missing) + manifest.LIMIT  # of the configuration, which comes with them
        counter = Counter([shared / layer.sha256 for layer in missing], self._aside / "layout", advance)

        def tick() -> None:
            if (came := counter.tick()) > most:
                value = f"{self._remote} ({came} bytes of {most})"
                raise WorldFault("a registry sends more than the manifest says", value, ON_THE_WAY)

        try:
            server.pull(found.digest, tick)
        finally:  # what has come whole stays, even where the rest has not come
            counter.tick()
            for layer in missing:
                if self._store.blob(layer.sha256) is None and (shared / layer.sha256).exists():
                    _keep(self._store, shared / layer.sha256, layer, str(self._remote))

    def _first(self, question: Callable[[Server], Got]) -> Got:
        if len(self._servers) > 1:
            try:
                return question(self._servers[0])
            except Fault as fault:
                self._access.say(f"the mirror did not help ({fault.fact}: {fault.value}); on to {self._remote.host}")
                del self._servers[0]
        return question(self._servers[0])


class Counter:
    """Bytes that have come: of finished blobs, and of those that skopeo is writing beside the layout."""

    def __init__(self, finished: Sequence[Path], layout: Path, advance: Advance) -> None:
        self._finished, self._layout, self._advance, self._seen = finished, layout, advance, 0

    def tick(self) -> int:
        """Announce what has come since the last time; return how many bytes have come."""
        size = sum(_size(path) for path in (*self._finished, *self._layout.glob("oci-put-blob*")))
        if size > self._seen:
            self._advance(size - self._seen)
            self._seen = size
        return self._seen


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # not there yet, or finished and renamed just now
        return 0


def _keep(store: Store, path: Path, part: Descriptor, name: str) -> Path:
    if (got := sha256(path)) != part.sha256:
        value = f"{name}: {got}, not {part.sha256}"
        raise WorldFault("a download has another sha256 than expected", value, ON_THE_WAY)
    return store.keep(path, got)


@contextmanager
def repository(remote: Remote, store: Store, access: Access) -> Iterator[Repository]:
    """Open a repository to pull from; what is private or half-written is gone afterwards."""
    with store.temporary(directory=True) as aside:
        yield Repository(remote, store, access, aside)


def push(images: Sequence[Image], target: Remote, store: Store, access: Access, compression: str) -> None:
    """Push an image, one for each platform, in registry form: only what the registry lacks travels, the tag goes last.

    Where no tag can be replaced, one that is this image's already is as good.
    Raises UserFault when the user may not push there, WorldFault when it cannot be done, or the registry does not have
    the image afterwards. Raises Damaged when the store has another layer than it should.
    """
    digest = published_digest(images)
    alone = [
        replace(image, tags=image.tags[:1]) for image in images
    ]  # skopeo takes a layout's only entry without a tag
    with store.temporary(directory=True) as aside:
        write_layout(aside / "layout", alone, store, of_registry(compression), linked=True)
        server = Server(origin(target), store, access, aside)
        try:
            server.push(target.tag or "latest")
        except Fault as fault:
            if fault.kind != "immutable" or not _is_at(server, target, digest):
                raise
            return access.say(f"note: {target} was this image already")
        return require_there(server, digest, target, access.say)


def _is_at(server: Server, target: Remote, digest: str) -> bool:
    """Return whether the tag of a target is this manifest's already."""
    with suppress(Fault):
        return digest_of(server.inspect(target.tag or "latest")) == digest
    return False


def require_there(server: Server, digest: str, target: Remote, say: Callable[[str], None]) -> None:
    """Raise WorldFault when a registry does not have a manifest that was pushed: skopeo believes any answer with 200.

    Where the user may push and not pull, that is only said.
    """
    try:
        data = server.inspect(digest)
    except Fault as fault:
        if fault.kind not in ("denied", "busy"):
            raise WorldFault(LACKS, f"{target} ({fault.value})", WHO) from fault
        say(f"note: {target} was pushed; whether the registry has it could not be read back ({fault.fact})")
        return
    if digest_of(data) != digest:
        raise WorldFault(LACKS, f"{target} (it begins {data[:40].decode(errors='replace')!r})", WHO)


def origin(remote: Remote) -> Place:
    """Return the repository that a name is in, without a mirror."""
    return Place(remote.host, remote.name, NEAR.fullmatch(remote.host) is not None)


def mirror_place(text: str, name: str) -> Place:
    """Read [http[s]://]HOST[:PORT][/PROJECT]; a project goes before the name of the image, as in Harbor."""
    scheme, _, rest = text.rpartition("://")
    host, _, project = rest.rstrip("/").partition("/")
    if not HOST.fullmatch(host) or scheme not in ("", "http", "https") or (project and not NAME.fullmatch(project)):
        remedy = "--registry-mirror [https://]HOST[:PORT][/PROJECT]"
        raise UserFault("that is not the address of a mirror", repr(text.rpartition("@")[2]), remedy)
    plain = scheme == "http" or (not scheme and NEAR.fullmatch(host) is not None)
    return Place(host, f"{project}/{name}" if project else name, plain)
