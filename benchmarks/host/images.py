"""Images in the engine."""

from __future__ import annotations

from benchmarks.host.commands import call


def remove_image(name: str) -> None:
    """Remove the name of an image."""
    call(["docker", "rmi", "--force", name])


def unpacked_size(name: str) -> int:
    """Return the size of an image in the engine, in bytes."""
    return int(call(["docker", "image", "inspect", "--format", "{{.Size}}", name]))
