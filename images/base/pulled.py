"""An image of others as a base: brought into the store, read once, and refused where no image can stand on it.

Every caller says which manifest it means: `pull_image`, `pull_locked`, or by an index; `fetch_image` brings the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

from images.base import additions, inspect
from images.base.base import Base, BaseImage, Site
from images.base.inspect import require_usable
from images.context import Access
from images.deliver import transfer
from images.foreign import documents
from images.host import limits
from images.host.errors import UserFault, WorldFault
from images.oci import compression, indexes, reading, reference
from images.oci.layer import Layer, Written
from images.oci.manifest import DAMAGED, Manifest
from images.oci.reading import OnDisk
from images.oci.reference import Reference
from images.platforms import PLATFORMS, Platform, platform_of
from images.store.blobs import BLOB, Advance
from images.store.store import Store


@dataclass(frozen=True, kw_only=True)
class PulledImage:
    """An image in the store: its manifest, its configuration, and its layers as they are packed.

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
        lines = settings.get("Env") if isinstance(settings, dict) else None
        pairs = (str(line).partition("=") for line in (lines if isinstance(lines, list) else ()))
        return {name: value for name, _, value in pairs if name != "PYTHONPATH"}  # what is there would go first


class ImageSource(Protocol):
    """Where the parts of an image come from: what it brings is in the store, and its digests are checked."""

    def config(self, manifest: Manifest, advance: Advance) -> Path:
        """Return the file of a configuration."""

    def layers(self, manifest: Manifest, advance: Advance) -> list[Path]:
        """Return the files of the layers, from the lowest."""


@dataclass(frozen=True)
class InStore:
    """The source that is the store itself."""

    store: Store

    def config(self, manifest: Manifest, _: Advance) -> Path:
        """Return the file of a configuration."""
        return self.store.place(manifest.config.sha256)

    def layers(self, manifest: Manifest, _: Advance) -> list[Path]:
        """Return the files of the layers, from the lowest."""
        return [self.store.place(layer.sha256) for layer in manifest.layers]

    def missing(self, manifest: Manifest) -> list[str]:
        """Return the digests of the parts that it does not have whole."""
        parts = (manifest.config, *manifest.layers)
        return [part.digest for part in parts if not self.store.verified(part.sha256, BLOB)]


@contextmanager
def open_source(named: Reference, store: Store, access: Access) -> Iterator[OnDisk | transfer.Repository]:
    """Open what a reference names: a registry, a layout or an archive.

    Raises UserFault when there is none.
    """
    if isinstance(named, reference.Remote):
        with transfer.repository(named, store, access) as source:
            yield source
    elif isinstance(named, reference.LayoutReference):
        yield reading.open_layout(named, store)
    else:
        yield reading.open_archive(named, store)


def pull_image(named: Reference, platform: Platform, store: Store, access: Access, advance: Advance) -> PulledImage:
    """Bring the image of a name into the store; `advance` is called with the size of what came.

    Raises UserFault when it is not there, not for this platform or no image, WorldFault when it cannot be had whole.
    """
    name = str(named)
    with open_source(named, store, access) as source:
        manifest = indexes.find_manifest(source.manifest, name, platform)
        image = fetch_image(source, manifest, name, platform, advance)
    return replace(image, reference=name) if isinstance(named, reference.Remote) else image


def pull_locked(
    known: BaseImage, platform: Platform, store: Store, access: Access | None, advance: Advance
) -> PulledImage:
    """Bring the base of a lock into the store, and download from its registry only what the store lacks.

    Raises WorldFault when something is not in the store and there is no registry, or no `access` to it.
    """
    manifest, name = known.manifest, known.reference
    named, called = reference.parse_reference(name) if name else None, name or manifest.digest
    if isinstance(named, reference.Remote) and access:
        with transfer.repository(replace(named, digest=manifest.digest), store, access) as registry:
            image = fetch_image(registry, manifest, called, platform, advance)
    elif missing := (here := InStore(store)).missing(manifest):
        remedy = "--base with the directory or archive that the lock was made from, or --offline BUNDLE of the lock"
        raise WorldFault("parts of the base are missing", f"{called}: {', '.join(missing)}", remedy)
    else:
        image = fetch_image(here, manifest, called, platform, advance)
    return replace(image, reference=name)


def fetch_image(
    source: ImageSource, manifest: Manifest, name: str, platform: Platform | None, advance: Advance
) -> PulledImage:
    """Bring the configuration and the layers of one manifest into the store; `platform` is what it must be for.

    Raises UserFault for another platform, or one that is not known, before a layer is fetched, and WorldFault for parts
    that do not agree.
    """
    config = _fetch_config(source, manifest, name, advance)
    stated = _require_platform(config, name, platform)
    if len(config["rootfs"]["diff_ids"]) != len(manifest.layers):
        raise WorldFault("configuration and manifest do not agree", f"{name} (number of layers)", DAMAGED)
    layers = _fetch_layers(source, manifest, name, advance)
    return PulledImage(name=name, reference=None, platform=stated, manifest=manifest, config=config, layers=layers)


def _fetch_config(source: ImageSource, manifest: Manifest, name: str, advance: Advance) -> Mapping[str, Any]:
    if manifest.config.size > limits.CONFIG.most:
        raise WorldFault("a configuration is too long", f"{name} ({manifest.config.size} bytes)", DAMAGED)
    try:
        config = documents.parse_json(source.config(manifest, advance).read_bytes())
        diff_ids = config["rootfs"]["diff_ids"]
        _ = config["os"], config["architecture"]
        if not isinstance(diff_ids, list) or not all(reference.DIGEST.fullmatch(diff_id) for diff_id in diff_ids):
            raise ValueError("diff_ids")
    except (ValueError, KeyError, TypeError) as error:
        raise WorldFault("a configuration is damaged", f"{name} ({error!r})", DAMAGED) from error
    return cast("Mapping[str, Any]", config)


def _require_platform(config: Mapping[str, Any], name: str, platform: Platform | None) -> Platform:
    """Return what a configuration is for.

    Raises UserFault where that is another platform, or none that images are made for.
    """
    system = f"{config['os']}/{config['architecture']}"
    wanted = (platform,) if platform else PLATFORMS
    if match := next((candidate for candidate in wanted if str(candidate) == system), None):
        return match
    remedy = f"an image for {' or '.join(map(str, wanted))}"
    remedy += f", or --platform {system}" if platform_of(system) else ""
    raise UserFault("that image is for another machine", f"{name} ({system})", remedy)


def _fetch_layers(source: ImageSource, manifest: Manifest, name: str, advance: Advance) -> tuple[Path, ...]:
    """Bring the layers into the store; refuse a manifest that says another size of one.

    Such content is not to be trusted (OCI image specification 1.1, "Content Descriptors"), and in the store a layer of
    another size counts as damaged.
    """
    paths = tuple(source.layers(manifest, advance))
    for layer, path in zip(manifest.layers, paths, strict=True):
        if (size := path.stat().st_size) != layer.size:
            value = f"{name}: {layer.digest} (the manifest says {layer.size} bytes, the layer has {size})"
            remedy = "another image, or ask whoever pushed it"
            raise WorldFault("a manifest says a wrong size of a layer", value, remedy)
    return paths


def read_base(image: PulledImage, python: str, glibc: str, store: Store) -> Base:
    """Return the base that an image is for Python `python` (3.X) and wheels of `glibc`; it is read once.

    Raises UserFault when it cannot be one, WorldFault when a layer is damaged.
    """

    def inspected() -> dict[str, object]:
        layers = [*zip(image.layers, image.diff_ids, strict=True)]
        facts, sizes = inspect.read_facts(layers, image.environment, image.platform)
        return {"facts": asdict(facts), "sizes": sizes}

    digests = [image.manifest.config.digest, *(layer.digest for layer in image.manifest.layers)]
    record = store.cached("pulled", digests, inspected).value
    facts = inspect.from_plain(record["facts"])
    require_usable(facts, image.name, python, glibc)
    return Base(
        name=image.reference,
        layers=tuple(_describe_layers(image, record["sizes"])),
        facts=facts,
        site=Site(python, facts.sites[python][0], f"/{facts.pythons[python]}"),
        links=additions.choose_links(facts, facts.pythons[python]),
        manifest=image.manifest,
        environment=image.environment,
        history=_history(image),
    )


def _describe_layers(image: PulledImage, sizes: Sequence[int]) -> Iterator[Layer]:
    rows = zip(image.manifest.layers, image.diff_ids, image.layers, sizes, strict=True)
    for number, (layer, diff_id, path, unpacked) in enumerate(rows, 1):
        written = Written(diff_id.removeprefix("sha256:"), layer.sha256, layer.size, unpacked)
        yield Layer(f"base {number}", written, reused=True, packed=compression.detect(path))


def _history(image: PulledImage) -> tuple[Mapping[str, Any], ...]:
    """Take the history of a configuration if it accounts for every layer: engines refuse one that does not."""
    history = image.config.get("history")
    rows = [row for row in history if isinstance(row, dict)] if isinstance(history, list) else []
    if sum(not row.get("empty_layer") for row in rows) == len(image.layers):
        return tuple(rows)
    return tuple({"created_by": f"base {number}"} for number in range(1, len(image.layers) + 1))
