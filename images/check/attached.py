"""The documents that are attached to an image in a registry: its SBOM and its provenance, as others look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from images.check import provenance
from images.deliver import referrers
from images.deliver.referrers import Attachment
from images.host.context import Access
from images.host.errors import WorldFault
from images.model import Lock
from images.oci.manifest import digest_of
from images.oci.reference import Remote

PREDICATE = "in-toto.io/predicate-type"  # by which BuildKit and Docker name what a statement says
# artifactType: what Trivy and `oras discover` look for, and cosign lists.
CYCLONEDX, IN_TOTO = "application/vnd.cyclonedx+json", "application/vnd.in-toto+json"


def documents(lock: Lock, sbom: str, manifest: bytes) -> tuple[Attachment, ...]:
    """Return the SBOM and the provenance of the image with this manifest."""
    statement = provenance.statement(lock, digest_of(manifest)).encode()
    said = ((PREDICATE, provenance.PREDICATE),)
    return (
        Attachment(manifest, "sbom", "sbom.cdx.json", CYCLONEDX, sbom.encode()),
        Attachment(manifest, "provenance", "provenance.json", IN_TOTO, statement, said),
    )


def compare(known: Sequence[Attachment], remote: Remote, access: Access) -> dict[str, str | None]:
    """Return which documents are attached to the image of those that are known: name -> digest, None without one.

    Raises WorldFault where there are others of a kind, and not the one that is known.
    """
    found = referrers.listed(digest_of(known[0].image), remote, access)
    return {document.name: _find(document, found, remote) for document in known}


def _find(document: Attachment, found: Sequence[Mapping[str, Any]], remote: Remote) -> str | None:
    others = [str(entry["digest"]) for entry in found if entry.get("artifactType") == document.media_type]
    if others and document.digest not in others:
        fact = f"the {document.name} that is attached to the image is not the one of this build"
        raise WorldFault(fact, remote.called(others[0]), f"ask who pushed it; build.py {document.name} prints ours")
    return document.digest if others else None
