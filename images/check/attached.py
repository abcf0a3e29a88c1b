"""The documents that are attached to an image in a registry: its SBOM and its provenance, as others look for them."""

from __future__ import annotations

from collections.abc import Sequence

from images.check import provenance
from images.deliver import referrers
from images.host.context import Access
from images.host.errors import WorldFault
from images.model import Descriptor, Lock
from images.oci.attachment import Attachment, subject
from images.oci.reference import Place

PREDICATE = "in-toto.io/predicate-type"  # by which BuildKit and Docker name what a statement says
# artifactType: what Trivy and `oras discover` look for, and cosign lists.
CYCLONEDX, IN_TOTO = "application/vnd.cyclonedx+json", "application/vnd.in-toto+json"


def documents(lock: Lock, sbom: str, digest: str) -> tuple[Attachment, ...]:
    """Return the SBOM and the provenance of the image with this digest."""
    statement = provenance.statement(lock, digest).encode()
    return (
        Attachment("sbom", "sbom.cdx.json", CYCLONEDX, sbom.encode()),
        Attachment("provenance", "provenance.json", IN_TOTO, statement, ((PREDICATE, provenance.PREDICATE),)),
    )


def compare(known: tuple[Attachment, ...], written: bytes, place: Place, access: Access) -> dict[str, str | None]:
    """Return which documents are attached to an image with this manifest, by name: the digest, None without one.

    Raises WorldFault where there are others of a kind, and not the one that is known.
    """
    about = subject(written)
    found = referrers.listed(about.digest, place, access)
    return {document.name: _find(document, about, found, place) for document in known}


def _find(document: Attachment, about: Descriptor, found: Sequence[referrers.Entry], place: Place) -> str | None:
    others = [str(entry.get("digest")) for entry in found if entry.get("artifactType") == document.media_type]
    digest = document.digest(about)
    if others and digest not in others:
        fact = f"the {document.name} that is attached to the image is not the one of this build"
        raise WorldFault(fact, place.called(others[0]), f"ask who pushed it; build.py {document.name} prints ours")
    return digest if others else None
