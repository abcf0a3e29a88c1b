"""An image of others as a base: its parts come into the store by their digests, and are read once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from images.base import additions, inspect
from images.base.inspect import refuse
from images.deliver import transfer
from images.foreign import documents
from images.foreign.files import in_directory
from images.host import limits
from images.host.context import Access
from images.host.download import Advance
from images.host.errors import UserFault, WorldFault
from images.host.store import Store
from images.model import BLOB, Base, BaseImage, Layer, Manifest, Site, Written
from images.oci import compression, reference, selection
from images.oci.manifest import DAMAGED
from images.oci.reading import layout
from images.oci.reading.files import OnDisk
from images.oci.reference import Reference
from images.platforms import PLATFORMS, Platform, platform_of


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of an image in the store: its manifest, its configuration, and its layers as they are packed.

    `name` is what messages call it, `reference` its name in a registry, None where it does not come from one.
    """

    name: str
    reference: str | None
    platform: Platform
    manifest: Manifest
    config: Mapping[str, Any]
    layers: tuple[Path, ...]

    @property
    def diff_ids(self) -> list[str]:
        """Return the digests of the layers as they are unpacked."""
        return [*self.config["rootfs"]["diff_ids"]]

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of the configuration."""
        settings = self.config.get("config")
        found = settings.get("Env") if isinstance(settings, dict) else None
        pairs = (str(line).partition("=") for line in (found if isinstance(found, list) else ()))
        return {name: value for name, _, value in pairs if name != "PYTHONPATH"}  # what is there would go first


Source = OnDisk | transfer.Repository  # what it brings is in the store, and its digests are checked


def fetch(named: Reference, platform: Platform, store: Store, access: Access, advance: Advance) -> Parts:
    """Fetch an image into the store, checked by its digests; `advance` is called with the size of what came.

    Raises UserFault when it is not there, not for this platform or no image, WorldFault when it cannot be had whole.
    """
    name = str(named)
    with _source(named, store, access) as source:
        found = selection.resolve(source.manifest, name, platform)
        parts = _parts(source, found, name, platform, advance)
        return replace(parts, reference=name) if isinstance(named, reference.Remote) else parts


def fetch_locked(known: BaseImage, platform: Platform, store: Store, access: Access | None, advance: Advance) -> Parts:
    """Fetch the base of a lock; only what the store lacks is asked of the registry that it is in.

    Raises WorldFault when something is not in the store and there is no registry, or no `access` to it.
    """
    found, name = known.manifest, known.reference
    named, called = reference.parse(name) if name else None, name or found.digest
    if isinstance(named, reference.Remote) and access:
        with transfer.repository(replace(named, digest=found.digest), store, access) as source:
            return replace(_parts(source, found, called, platform, advance), reference=name)
    missing = [part.digest for part in (found.config, *found.layers) if not store.verified(part.sha256, BLOB)]
    if missing:
        remedy = "--base with the directory or archive that the lock was made from, or --offline BUNDLE of the lock"
        raise WorldFault("parts of the base are missing", f"{called}: {', '.join(missing)}", remedy)
    there = OnDisk(in_directory(store.root, called), store, lambda _: b"", str)
    return replace(_parts(there, found, called, platform, advance), reference=name)


def read_base(parts: Parts, python: str, glibc: str, store: Store) -> Base:
    """Return the base that an image is for Python `python` (3.X) and wheels of `glibc`; it is read once.

    Raises UserFault when it cannot be one, WorldFault when a layer is damaged.
    """

    def inspected() -> dict[str, object]:
        facts, sizes = inspect.read_facts(
            [*zip(parts.layers, parts.diff_ids, strict=True)], parts.environment, parts.platform
        )
        return {"facts": asdict(facts), "sizes": sizes}

    digests = [parts.manifest.config.digest, *(layer.digest for layer in parts.manifest.layers)]
    record = store.cached("pulled", digests, inspected).value
    facts = inspect.from_plain(record["facts"])
    refuse(facts, parts.name, python, glibc)
    return Base(
        name=parts.reference,
        layers=tuple(_layers(parts, record["sizes"])),
        facts=facts,
        site=Site(python, facts.sites[python][0], f"/{facts.pythons[python]}"),
        links=additions.links(facts, facts.pythons[python]),
        manifest=parts.manifest,
        environment=parts.environment,
        history=_history(parts),
    )


Contents = tuple[bytes, bytes, tuple[Path, ...]]  # manifest and configuration as they are, layers from the lowest


def contents(
    named: Reference, platform: Platform | None, store: Store, access: Access, advance: Advance
) -> tuple[list[str], list[Contents]]:
    """Fetch an image into the store, without a platform one for each that it is there for.

    Return the digests that its name leads to, those of indexes and of the only image, and each image as it is: its
    layers stay packed as they are. Raises UserFault where an engine might take another image for it, else as `fetch`
    does.
    """
    name, found = str(named), list[Contents]()
    with _source(named, store, access) as source:
        way, images = selection.every(source.manifest, name, platform)
        for each, image in images:
            _config(source, image, name, each, advance)
            config = source.config(image, advance).read_bytes()
            found.append((source.manifest(image.digest), config, _fetched(source, image, name, advance)))
    return way, found


def _layers(parts: Parts, sizes: Sequence[int]) -> Iterator[Layer]:
    rows = zip(parts.manifest.layers, parts.diff_ids, parts.layers, sizes, strict=True)
    for number, (layer, diff_id, path, unpacked) in enumerate(rows, 1):
        written = Written(diff_id.removeprefix("sha256:"), layer.sha256, layer.size, unpacked)
        yield Layer(f"base {number}", written, reused=True, packed=compression.detect(path))


def _history(parts: Parts) -> tuple[Mapping[str, Any], ...]:
    """Take the history of a configuration if it accounts for every layer: engines refuse one that does not."""
    found = parts.config.get("history")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    if sum(not row.get("empty_layer") for row in rows) == len(parts.layers):
        return tuple(rows)
    return tuple({"created_by": f"base {number}"} for number in range(1, len(parts.layers) + 1))


def _parts(source: Source, found: Manifest, name: str, platform: Platform, advance: Advance) -> Parts:
    config = _config(source, found, name, platform, advance)
    layers = _fetched(source, found, name, advance)
    return Parts(name=name, reference=None, platform=platform, manifest=found, config=config, layers=layers)


def _fetched(source: Source, found: Manifest, name: str, advance: Advance) -> tuple[Path, ...]:
    """Bring the layers into the store; refuse a manifest that says another size of one.

    Such content is not to be trusted (OCI image specification 1.1, "Content Descriptors"), and in the store a layer of
    another size counts as damaged.
    """
    paths = tuple(source.layers(found, advance))
    for layer, path in zip(found.layers, paths, strict=True):
        if (size := path.stat().st_size) != layer.size:
            value = f"{name}: {layer.digest} (the manifest says {layer.size} bytes, the layer has {size})"
            raise WorldFault(
                "a manifest says a wrong size of a layer", value, "another image, or ask whoever pushed it"
            )
    return paths


@contextmanager
def _source(named: Reference, store: Store, access: Access) -> Iterator[Source]:
    if isinstance(named, reference.Remote):
        with transfer.repository(named, store, access) as source:
            yield source
    elif isinstance(named, reference.Directory):
        yield layout.in_directory(named, store)
    else:
        yield layout.in_archive(named, store)


def _config(
    source: Source, found: Manifest, name: str, platform: Platform | None, advance: Advance
) -> Mapping[str, Any]:
    """Return the configuration; refuse another platform, or one that is not known, before a layer is fetched."""
    if found.config.size > limits.CONFIG.most:
        raise WorldFault("a configuration is too long", f"{name} ({found.config.size} bytes)", DAMAGED)
    try:
        config = documents.parse(source.config(found, advance).read_bytes())
        diff_ids = config["rootfs"]["diff_ids"]
        system = f"{config['os']}/{config['architecture']}"
        if not all(reference.DIGEST.fullmatch(diff_id) for diff_id in diff_ids):
            raise ValueError("diff_ids")
    except (ValueError, KeyError, TypeError) as error:
        raise WorldFault("a configuration is damaged", f"{name} ({error!r})", DAMAGED) from error
    wanted = [str(each) for each in ((platform,) if platform else PLATFORMS)]
    if system not in wanted:
        remedy = f"an image for {' or '.join(wanted)}" + (f", or --platform {system}" if platform_of(system) else "")
        raise UserFault("that image is for another machine", f"{name} ({system})", remedy)
    if not isinstance(diff_ids, list) or len(diff_ids) != len(found.layers):
        raise WorldFault("configuration and manifest do not agree", f"{name} (number of layers)", DAMAGED)
    return cast("Mapping[str, Any]", config)
