"""Any image as a base: into the store by its own digests, and what must be known of it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, cast

from images.base import inspect
from images.base.inspect import Facts
from images.base.overlay import Tree
from images.host.context import Access
from images.host.download import Advance
from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.oci import compression as compressed
from images.oci import layout, manifest, reference, transfer
from images.oci.layer import Written
from images.oci.manifest import DAMAGED, Descriptor, Manifest
from images.oci.reference import Reference

CONFIG_LIMIT = 8 << 20  # bytes


@dataclass(frozen=True)
class Under:
    """A layer of the base as its registry has it, and how it is packed: none, gzip or zstd."""

    written: Written
    compression: str


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """An image of others in the store: `config` is its whole configuration."""

    name: str
    manifest: Manifest
    config: Mapping[str, Any]
    layers: tuple[Under, ...]
    facts: Facts

    @property
    def digest(self) -> str:
        """The digest of its manifest."""
        return self.manifest.digest

    @property
    def settings(self) -> Mapping[str, Any]:
        """What a container of it starts from: Env, Entrypoint, Cmd, User, WorkingDir, Labels and so on."""
        return self.config.get("config") or {}

    @property
    def environment(self) -> dict[str, str]:
        """Its variables."""
        return environment(self.config)


class Source(Protocol):
    """Where an image comes from; what it brings is in the store, and its digests are checked."""

    def manifest(self, digest: str | None) -> bytes:
        """Return a manifest or an index by digest, or for None the one that is meant."""

    def config(self, found: Manifest, advance: Advance) -> Path:
        """Return where the configuration is in the store."""

    def layers(self, found: Manifest, advance: Advance) -> list[Path]:
        """Return where the layers are in the store, from the lowest."""


@dataclass(frozen=True)
class Stored:
    """An image that is in the store already, or cannot be had."""

    store: Store
    name: str

    def manifest(self, digest: str | None) -> bytes:
        """Refuse: what was locked is known by its manifest."""
        raise WorldFault("the base of the lock cannot be looked up", self.name, "build.py lock")

    def config(self, found: Manifest, advance: Advance) -> Path:
        """Find the configuration in the store."""
        return self._blob(found.config)

    def layers(self, found: Manifest, advance: Advance) -> list[Path]:
        """Find the layers in the store."""
        return [self._blob(layer) for layer in found.layers]

    def _blob(self, part: Descriptor) -> Path:
        if path := self.store.whole(part.sha256, "blob"):
            return path
        remedy = "--base with the directory or archive that the lock was made from, or --offline BUNDLE of the lock"
        raise WorldFault("a part of the base is missing", f"{self.name}: {part.digest}", remedy)


def bring(named: Reference, store: Store, access: Access, advance: Advance) -> Foreign:
    """Bring an image into the store and read it; `advance` hears of every byte that is fetched.

    Raises UserFault when it is not there, not for linux/amd64 or no image, WorldFault when it cannot be had whole.
    """
    found, config, paths = _parts(named, store, access, advance)
    layers, known = _read(store, found, config, paths)
    return Foreign(name=str(named), manifest=found, config=config, layers=layers, facts=known)


def again(found: Manifest, name: str | None, store: Store, access: Access | None, advance: Advance) -> Foreign:
    """Bring an image whose manifest is known; only what the store lacks is asked of the registry that `name` is in.

    Raises WorldFault when something is not in the store and there is no registry, or no `access` to it.
    """
    named = reference.parse(name) if name else None
    called = name or found.digest
    with ExitStack() as stack:
        source: Source = Stored(store, called)
        if isinstance(named, reference.Remote) and access:
            remote = replace(named, digest=found.digest)
            source = stack.enter_context(transfer.repository(remote, store, access))
        config = _config(source, found, called, advance)
        layers, known = _read(store, found, config, source.layers(found, advance))
    return Foreign(name=called, manifest=found, config=config, layers=layers, facts=known)


class Contents(NamedTuple):
    """An image in the store: its manifest and configuration as they are, and its layers, from the lowest."""

    manifest: bytes
    config: bytes
    layers: tuple[Path, ...]


def contents(named: Reference, store: Store, access: Access, advance: Advance) -> Contents:
    """Bring an image into the store as it is; its layers stay packed as they are."""
    with _source(named, store, access) as source:
        found = manifest.resolve(source.manifest, str(named))
        _config(source, found, str(named), advance)
        config = source.config(found, advance).read_bytes()
        return Contents(source.manifest(found.digest), config, tuple(source.layers(found, advance)))


def _parts(
    named: Reference, store: Store, access: Access, advance: Advance
) -> tuple[Manifest, Mapping[str, Any], list[Path]]:
    name = str(named)
    with _source(named, store, access) as source:
        found = manifest.resolve(source.manifest, name)
        config = _config(source, found, name, advance)
        return found, config, source.layers(found, advance)


def environment(config: Mapping[str, Any]) -> dict[str, str]:
    """Read the variables of a configuration."""
    settings = config.get("config")
    found = settings.get("Env") if isinstance(settings, dict) else None
    pairs = (str(line).partition("=") for line in found or ())
    return {name: value for name, _, value in pairs}


@contextmanager
def _source(named: Reference, store: Store, access: Access) -> Iterator[Source]:
    if isinstance(named, reference.Remote):
        with transfer.repository(named, store, access) as source:
            yield source
    elif isinstance(named, reference.Directory):
        yield layout.in_directory(named, store)
    else:
        with layout.in_archive(named, store) as archive:
            yield archive


def _config(source: Source, found: Manifest, name: str, advance: Advance) -> Mapping[str, Any]:
    """Read the configuration, and refuse another architecture before a layer is fetched."""
    if found.config.size > CONFIG_LIMIT:
        raise WorldFault("a configuration is too long", f"{name} ({found.config.size} bytes)", DAMAGED)
    try:
        config = json.loads(source.config(found, advance).read_bytes())
        diff_ids = config["rootfs"]["diff_ids"]
        system = f"{config['os']}/{config['architecture']}"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WorldFault("a configuration is damaged", f"{name} ({error!r})", DAMAGED) from error
    if system != "linux/amd64":
        raise UserFault("that base is for another machine", f"{name} ({system})", "a base for linux/amd64")
    if not isinstance(diff_ids, list) or len(diff_ids) != len(found.layers):
        raise WorldFault("configuration and manifest do not agree", f"{name} (number of layers)", DAMAGED)
    return cast("Mapping[str, Any]", config)


def _read(
    store: Store, found: Manifest, config: Mapping[str, Any], paths: Sequence[Path]
) -> tuple[tuple[Under, ...], Facts]:
    """Read all layers once; the second time, what was found is in the store."""

    def read() -> dict[str, object]:
        tree = Tree()
        sizes = [_lay(tree, *row) for row in zip(range(len(paths)), paths, config["rootfs"]["diff_ids"], strict=True)]
        return {"sizes": sizes, "facts": inspect.plain(inspect.gather(tree, environment(config)))}

    inputs = [found.config.digest, [layer.digest for layer in found.layers]]
    record = store.cached("foreign", inputs, read).value
    rows = zip(found.layers, config["rootfs"]["diff_ids"], paths, record["sizes"], strict=True)
    return tuple(_under(*row) for row in rows), inspect.from_plain(record["facts"])


def _under(layer: Descriptor, diff_id: str, path: Path, unpacked: int) -> Under:
    written = Written(diff_id.removeprefix("sha256:"), layer.sha256, layer.size, unpacked)
    return Under(written, compressed.detect(path))


def _lay(tree: Tree, number: int, path: Path, diff_id: str) -> int:
    """Lay one layer over the tree, check it against the configuration, and return its size unpacked, in bytes."""
    with compressed.opened(path) as plain:
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", plain), mode="r|") as tar:
                tree.add(tar, number, inspect.keep)
        except tarfile.TarError as error:
            raise WorldFault("a layer is not a tar", f"{path.parent.name} ({error})", DAMAGED) from error
        plain.rest()
    if f"sha256:{plain.sha256}" != diff_id:
        raise WorldFault("a layer is not what the configuration says", f"{plain.sha256}, not {diff_id}", DAMAGED)
    return plain.size
