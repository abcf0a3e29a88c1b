"""What a finished build says of itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from images.check.opened import Inside
from images.check.verify import Difference
from images.model import Image


@dataclass(frozen=True)
class Outcome:
    """An image and where it went: a file or layout, an engine, registries; and how many seconds all that took."""

    image: Image
    archive: str | None
    engine: str | None
    pushed: tuple[str, ...]
    seconds: float


def show(outcome: Outcome, out: Console) -> None:
    """Print a line per layer, then what the image is called and where it went."""
    image = outcome.image
    for layer in image.layers:
        state = "reused" if layer.reused else "new"
        out.print(f"{layer.name:<14} {layer.written.size / 1e6:7.1f} MB  {state}", highlight=False, markup=False)
    total = sum(layer.written.size for layer in image.layers)
    unpacked = sum(layer.written.unpacked for layer in image.layers)
    out.print(f"{'total':<14} {total / 1e6:7.1f} MB  ({unpacked / 1e6:.1f} MB unpacked)", highlight=False)
    lines = [("id", image.id), ("digest", image.digest), *(("tag", tag) for tag in image.tags)]
    lines += [("archive", outcome.archive or ""), ("loaded", f"into {outcome.engine}" if outcome.engine else "")]
    lines += [*(("pushed", name) for name in outcome.pushed), ("seconds", f"{outcome.seconds:.1f}")]
    for name, value in lines:
        if value:
            out.print(f"{name:<14} {value}", highlight=False, markup=False, soft_wrap=True)


def fields(outcome: Outcome) -> dict[str, Any]:
    """Return what `show` prints, as JSON has it."""
    image = outcome.image
    layers = [
        {"name": p.name, "digest": f"sha256:{p.written.digest}", "size": p.written.size, "reused": p.reused}
        for p in image.layers
    ]
    named = {"image": image.tag, "tags": list(image.tags), "id": image.id, "digest": image.digest}
    places = {"archive": outcome.archive, "loaded": outcome.engine, "pushed": list(outcome.pushed)}
    sizes = {
        "size": sum(p.written.size for p in image.layers),
        "unpacked": sum(p.written.unpacked for p in image.layers),
    }
    return {**named, **places, "layers": layers, **sizes, "seconds": round(outcome.seconds, 3)}


def verified(
    inside: Inside, digest: str, difference: Difference | None, attached: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return what a comparison found, as JSON has it; `digest` is that of the image that was built again.

    Name, place, id and `manifest` are those of the image that was examined, `attached` the documents that a registry
    has of it.
    """
    found = dataclasses.asdict(difference) if difference else None
    named = {"image": inside.name, "where": inside.where, "same": difference is None, "id": inside.id}
    return {**named, "digest": digest, "manifest": inside.digest, "difference": found, "attached": {**attached}}
