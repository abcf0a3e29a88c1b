"""What a finished build says of itself."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from images.inspection.verify import Difference
from images.oci import image as oci


def show(image: oci.Image, archive: str | None, engine: str | None, seconds: float, out: Console) -> None:
    """Print a line per layer, then what the image is called and where it went."""
    for part in image.parts:
        state = "reused" if part.reused else "new"
        out.print(f"{part.name:<14} {part.written.size / 1e6:7.1f} MB  {state}", highlight=False)
    total = sum(part.written.size for part in image.parts)
    unpacked = sum(part.written.unpacked for part in image.parts)
    out.print(f"{'total':<14} {total / 1e6:7.1f} MB  ({unpacked / 1e6:.1f} MB unpacked)", highlight=False)
    lines = {"id": image.id, "digest": image.digest, "tag": image.tag, "archive": archive}
    lines |= {"loaded": f"into {engine}" if engine else None, "seconds": f"{seconds:.1f}"}
    for name, value in lines.items():
        if value:
            out.print(f"{name:<14} {value}", highlight=False, soft_wrap=True)


def fields(image: oci.Image, archive: str | None, seconds: float) -> dict[str, Any]:
    """Say the same as JSON has it."""
    layers = [
        {"name": p.name, "digest": f"sha256:{p.written.digest}", "size": p.written.size, "reused": p.reused}
        for p in image.parts
    ]
    named = {"image": image.tag, "id": image.id, "digest": image.digest, "archive": archive}
    sizes = {"size": sum(p.written.size for p in image.parts), "unpacked": sum(p.written.unpacked for p in image.parts)}
    return {**named, "layers": layers, **sizes, "seconds": round(seconds, 3)}


def verified(name: str, made: oci.Image, difference: Difference | None) -> dict[str, Any]:
    """Say what a comparison found, as JSON has it."""
    found = None
    if difference:
        found = {"layer": difference.layer, "path": difference.path, "image": difference.image}
        found["rebuilt"] = difference.rebuilt
    return {"image": name, "same": difference is None, "id": made.id, "digest": made.digest, "difference": found}
