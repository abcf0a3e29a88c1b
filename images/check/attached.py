"""The documents that are attached to an image in a registry: its SBOM and its provenance, as others look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from images.check import provenance
from images.context import Access
from images.deliver import referrers
from images.deliver.referrers import Attachment
from images.host.errors import WorldFault
from images.host.text import shortened, shown
from images.lock.lock import Lock
from images.oci.descriptors import digest_of
from images.oci.indexes import annotations_of
from images.oci.reference import Remote

PREDICATE = "in-toto.io/predicate-type"  # by which BuildKit and Docker name what a statement says
# artifactType: what Trivy and `oras discover` look for, and cosign lists.
CYCLONEDX, IN_TOTO = "application/vnd.cyclonedx+json", "application/vnd.in-toto+json"

ASK = "ask who pushed it, and remove it (oras manifest delete)"
AGAIN = "push the image again: what is missing comes with it; or ask who removed it"


class Attached(NamedTuple):
    """What a registry has attached to an image: the documents of its build, name -> digest, None for one that is not.

    `others` is what nothing here can vouch for, such as signatures, by digest and type.
    """

    documents: Mapping[str, str | None]
    others: Sequence[str]


def write_documents(lock: Lock, sbom: str, manifest: bytes) -> tuple[Attachment, ...]:
    """Return the SBOM and the provenance of the image with this manifest."""
    statement = provenance.write_statement(lock, digest_of(manifest)).encode()
    said = ((PREDICATE, provenance.PREDICATE),)
    return (
        Attachment(manifest, "sbom", "sbom.cdx.json", CYCLONEDX, sbom.encode()),
        Attachment(manifest, "provenance", "provenance.json", IN_TOTO, statement, said),
    )


def compare_attached(known: Sequence[Attachment], indexes: Sequence[str], remote: Remote, access: Access) -> Attached:
    """Return which of the documents that are known a registry has attached to their image, and what it has besides.

    What is attached to the `indexes` that lead to the image, by their digests, is looked at as well.
    Raises WorldFault where there is another SBOM or provenance than the one that is known, or one is listed that is not
    there, or cannot be read whole.
    """
    ours = {document.digest: document for document in known}
    about, *above = (
        referrers.list_attached(subject, remote, access) for subject in (digest_of(known[0].image), *indexes)
    )
    there = {str(entry["digest"]) for entry in about} & ours.keys()
    others = [entry for entry in about if entry["digest"] not in ours]
    others += [entry for entries in above for entry in entries]
    for entry in others:
        if name := _claim(entry):
            value, remedy = f"{remote.called(entry['digest'])} ({name})", f"build.py {name} prints ours"
            raise WorldFault("a document is attached that is not the one of this build", value, f"{ASK}; {remedy}")
    for digest in there:
        if not referrers.is_attached(ours[digest], remote, access):
            value = f"{remote.called(digest)} ({ours[digest].name})"
            raise WorldFault("a document is attached that the registry does not have", value, AGAIN)
    digests = {name: digest if digest in there else None for digest, name in ((d.digest, d.name) for d in known)}
    return Attached(digests, [*dict.fromkeys(map(_called, others))])


def _claim(entry: Mapping[str, Any]) -> str | None:
    """Return which of our documents an entry is to be taken for, by what those who look for one compare."""
    media_type = _type(entry).partition(";")[0].strip().lower()
    if media_type == IN_TOTO and annotations_of(entry).get(PREDICATE, provenance.PREDICATE) != provenance.PREDICATE:
        return None
    return {CYCLONEDX: "sbom", IN_TOTO: "provenance"}.get(media_type)


def _called(entry: Mapping[str, Any]) -> str:
    annotation = annotations_of(entry).get(PREDICATE)
    return shown(
        f"{entry['digest']} ({shortened(' '.join(filter(None, (_type(entry), annotation and str(annotation)))), 200)})"
    )


def _type(entry: Mapping[str, Any]) -> str:
    return str(entry.get("artifactType") or entry["mediaType"])
