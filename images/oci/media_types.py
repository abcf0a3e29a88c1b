"""What kinds of manifests, indexes, configurations and layers there are; the first of each is what we write."""

from __future__ import annotations

PUBLISHED = ("zstd", "gzip")  # how layers that we write may be compressed in a layout and in a registry

OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
MANIFESTS = (f"{OCI}.manifest.v1+json", f"{DOCKER}.distribution.manifest.v2+json")
INDEXES = (f"{OCI}.index.v1+json", f"{DOCKER}.distribution.manifest.list.v2+json")
CONFIGS = (f"{OCI}.config.v1+json", f"{DOCKER}.container.image.v1+json")
LAYERS = (
    *(f"{OCI}.layer.v1.tar{suffix}" for suffix in ("", "+gzip", "+zstd")),
    *(f"{DOCKER}.image.rootfs.diff.tar{suffix}" for suffix in ("", ".gzip")),  # Docker has none for zstd
)


def layer_type(compression: str) -> str:
    """Return the type of a layer that is compressed in this way: none, gzip or zstd."""
    return f"{OCI}.layer.v1.tar" + ("" if compression == "none" else f"+{compression}")
