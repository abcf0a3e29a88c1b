"""An image of others as a base: what is in it is read once, and refused where no image can stand on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from images.base import additions, inspect
from images.base.base import Base
from images.base.facts import Site
from images.base.image import PulledImage
from images.base.inspect import require_usable
from images.oci import compression
from images.oci.layer import Layer, Written
from images.store.store import Store


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
