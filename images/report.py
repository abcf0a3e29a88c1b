"""What a finished build says of itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from images.check.provenance import Attached
from images.check.verify import Difference, Inside
from images.host.errors import shown
from images.oci.image import Image, published_digest


@dataclass(frozen=True)
class Outcome:
    """An image for each platform and where it went: a file or layout, an engine, registries; and how many seconds."""

    images: tuple[Image, ...]
    archive: str | None
    engine: str | None
    pushed: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """What a comparison found: the image that was examined, the digest of the one that was built again, the difference.

    `attached` is what a registry has of it.
    """

    inside: Inside
    digest: str
    difference: Difference | None
    attached: Attached


def show_outcome(outcome: Outcome, out: Console) -> None:
    """Print a line per layer, then what the image is called and where it went."""
    several = len(outcome.images) > 1
    for image in outcome.images:
        _show_image(image, several, out)
    lines = [("index", published_digest(outcome.images))] if several else []
    lines += [*(("tag", tag) for tag in outcome.images[0].tags), ("archive", outcome.archive or "")]
    lines += [("loaded", f"into {outcome.engine}" if outcome.engine else "")]
    lines += [*(("pushed", name) for name in outcome.pushed), ("seconds", f"{outcome.seconds:.1f}")]
    show_lines(lines, out)


def _show_image(image: Image, several: bool, out: Console) -> None:
    size, unpacked = _sizes(image)
    sizes = [(layer.name, layer.written.size, "reused" if layer.reused else "new") for layer in image.layers]
    sizes += [("total", size, f"({unpacked / 1e6:.1f} MB unpacked)")]
    lines = [("platform", str(image.platform) if several else "")]
    lines += [(name, f"{size / 1e6:7.1f} MB  {state}") for name, size, state in sizes]
    show_lines([*lines, ("id", image.id), ("digest", image.digest)], out)


def show_lines(lines: Sequence[tuple[str, str]], out: Console) -> None:
    """Print what has which value; nothing of what has none."""
    for name, value in lines:
        if value:
            out.print(f"{name:<14} {shown(value)}", highlight=False, markup=False, soft_wrap=True)


def _sizes(image: Image) -> tuple[int, int]:
    return sum(layer.written.size for layer in image.layers), sum(layer.written.unpacked for layer in image.layers)


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """Return what `show_outcome` prints, as JSON; what concerns one of several images is below `platforms`."""
    first, digest = outcome.images[0], published_digest(outcome.images)
    by_platform = {str(image.platform): _image_fields(image) for image in outcome.images}
    details = {"platforms": by_platform} if len(by_platform) > 1 else by_platform[str(first.platform)]
    named = {"image": first.tag, "tags": list(first.tags), **details, "digest": digest}
    places = {"archive": outcome.archive, "loaded": outcome.engine, "pushed": list(outcome.pushed)}
    return {**named, **places, "seconds": round(outcome.seconds, 3)}


def _image_fields(image: Image) -> dict[str, Any]:
    layers = [
        {"name": p.name, "digest": f"sha256:{p.written.digest}", "size": p.written.size, "reused": p.reused}
        for p in image.layers
    ]
    size, unpacked = _sizes(image)
    return {"id": image.id, "digest": image.digest, "layers": layers, "size": size, "unpacked": unpacked}


def show_verdicts(verdicts: Sequence[Verdict], out: Console) -> None:
    """Print which images are what their locks say, and whether what is attached to each is."""
    for verdict in verdicts:
        inside = verdict.inside
        if verdict.difference is None:
            summary = f"{inside.name} ({inside.where}, {inside.platform}): {len(inside.layers)} layers"
            show_lines([("verified", f"{summary}, id {inside.id}, manifest {inside.digest}")], out)
        for document, digest in verdict.attached.documents.items():
            show_lines([(document, f"{digest}, equal to the one of this build" if digest else "not attached")], out)
        show_lines([("not examined", other) for other in verdict.attached.others], out)
    if len(verdicts) > 1:
        show_lines([("index", verdicts[0].inside.digests[-1])], out)


def verdict_fields(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return what a comparison found, as JSON has it; what is said of each of several images is below `platforms`.

    `digest` is that of the image that was built again; name, place, id and `manifest` are those of the image that was
    examined.
    """
    by_platform = {verdict.inside.platform: _verdict_fields(verdict) for verdict in verdicts}
    inside = verdicts[0].inside
    of_index = {"index": inside.digests[-1], "platforms": by_platform}
    details = of_index if len(by_platform) > 1 else by_platform[inside.platform]
    same = all(verdict.difference is None for verdict in verdicts)
    return {"image": inside.name, "where": inside.where, **details, "same": same}


def _verdict_fields(verdict: Verdict) -> dict[str, Any]:
    inside, difference = verdict.inside, dataclasses.asdict(verdict.difference) if verdict.difference else None
    named = {"same": difference is None, "id": inside.id, "digest": verdict.digest, "manifest": inside.digest}
    documents, others = verdict.attached
    return {**named, "difference": difference, "attached": {**documents}, "not_examined": [*others]}
