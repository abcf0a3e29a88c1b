"""The documents that are attached to an image in a registry: its SBOM and its provenance, as others look for them."""

from __future__ import annotations

from images.check import provenance
from images.deliver import referrers
from images.host.context import Access
from images.host.store import Store
from images.model import Lock
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


def compare(
    known: tuple[Attachment, ...], written: bytes, place: Place, store: Store, access: Access
) -> dict[str, str | None]:
    """Return which documents are attached to an image with this manifest, by name: the digest, None where one is not.

    Raises WorldFault where one of these kinds is listed that is about another image.
    """
    about = subject(written)
    found = referrers.listed(about.digest, place, store, access)
    for entry in found:
        if entry.get("artifactType") in (CYCLONEDX, IN_TOTO):
            referrers.require_subject(about.digest, entry, place, store, access)
    there = {entry.get("digest") for entry in found}
    digests = {document.name: document.digest(about) for document in known}
    return {name: digest if digest in there else None for name, digest in digests.items()}
