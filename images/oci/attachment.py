"""Documents about an image, such as its SBOM, in a manifest of their own that names it (OCI 1.1, `subject`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.model import Descriptor
from images.oci import manifest
from images.oci.manifest import MANIFESTS, descriptor, digest_of, encode

EMPTY = "application/vnd.oci.empty.v1+json"  # a configuration for who has none ("Guidance for an Empty Descriptor")
NOTHING = b"{}"
TITLE = "org.opencontainers.image.title"  # as which file `oras pull` writes it


def subject(written: bytes) -> Descriptor:
    """Return how a document names the image with this manifest."""
    return Descriptor(MANIFESTS[0], digest_of(written), len(written))


@dataclass(frozen=True)
class Attachment:
    """A document about an image: what people call it, the name of a file, its media type, and its annotations.

    The media type is that of the content and of the manifest (`artifactType`), by which others look for it.
    """

    name: str
    filename: str
    media_type: str
    data: bytes
    annotations: tuple[tuple[str, str], ...] = ()

    def manifest(self, subject: Descriptor) -> bytes:
        """Return its manifest; equal documents about the same image have equal ones."""
        content = descriptor(self.media_type, digest_of(self.data), len(self.data))
        return encode(
            {
                "schemaVersion": 2,
                "mediaType": MANIFESTS[0],
                "artifactType": self.media_type,
                "config": descriptor(EMPTY, digest_of(NOTHING), len(NOTHING)),
                "layers": [{**content, "annotations": {TITLE: self.filename}}],
                "subject": descriptor(subject.media_type, subject.digest, subject.size),
                "annotations": dict(self.annotations),
            }
        )

    def digest(self, subject: Descriptor) -> str:
        """Return the digest of its manifest, by which a registry has it."""
        return digest_of(self.manifest(subject))

    def entry(self, subject: Descriptor) -> dict[str, Any]:
        """Return how a list of what is attached to the image names it ("Listing Referrers")."""
        written = self.manifest(subject)
        found = descriptor(MANIFESTS[0], digest_of(written), len(written))
        return {**found, "artifactType": self.media_type, "annotations": dict(self.annotations)}

    def write_layout(self, path: Path, subject: Descriptor) -> None:
        """Write it as the one entry of a new OCI layout."""
        blobs = path / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        written = self.manifest(subject)
        for data in (NOTHING, self.data, written):
            (blobs / digest_of(data).removeprefix("sha256:")).write_bytes(data)
        (path / "oci-layout").write_bytes(manifest.LAYOUT)
        (path / "index.json").write_bytes(manifest.write_list([self.entry(subject)]))
