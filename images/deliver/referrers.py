"""What is attached to an image in a registry: documents that name it as their subject, and the list of them.

A registry with the interface for it makes the list by itself. For others a tag, made of the image's digest, names it
(OCI distribution specification 1.1, "Listing Referrers", "Referrers Tag Schema"). skopeo brings the documents; the list
it neither asks for nor writes whole (1.9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import requests

from images.deliver.registry import Registry
from images.deliver.skopeo import Server
from images.host.context import Access
from images.host.store import Store
from images.model import Descriptor
from images.oci import manifest
from images.oci.attachment import Attachment
from images.oci.manifest import INDEXES
from images.oci.reference import Place

Entry = Mapping[str, Any]
# Kinds of refusals of a registry that takes images and not what is attached to them; another attempt does not help.
NOT_TAKEN = ("plain", "certificate", "immutable", "denied", "absent", "form")


def attach(documents: Sequence[Attachment], subject: Descriptor, place: Place, store: Store, access: Access) -> None:
    """Push documents about an image that the registry has, and see to it that they are listed.

    Raises a Fault where that cannot be done; the next call goes on.
    """
    with store.temporary(directory=True) as aside:
        server = Server(place, access, aside)
        for document in documents:
            document.write_layout(aside / document.name, subject)
            server.push(document.digest(subject), document.name)
    with Registry(place, access) as registry:
        if _listed(registry, subject.digest) is None:
            _add(registry, subject.digest, [document.entry(subject) for document in documents])


def listed(digest: str, place: Place, access: Access) -> list[Entry]:
    """Return the descriptors of what is attached to an image."""
    with Registry(place, access) as registry:
        found = _listed(registry, digest)
        return _tagged(registry, digest) if found is None else found


def _listed(registry: Registry, digest: str) -> list[Entry] | None:
    """Return what a registry lists by itself, None where it has no interface for that."""
    path = f"referrers/{digest}"
    answer = registry.ask("GET", path)
    if answer.status_code != requests.codes.ok or not answer.headers.get("Content-Type", "").startswith(INDEXES[0]):
        return None
    return [*manifest.read_list(answer.content, path)]


def _tagged(registry: Registry, digest: str) -> list[Entry]:
    path = _path(digest)
    answer = registry.ask("GET", path)
    if answer.status_code == requests.codes.not_found:
        return []
    if not answer.ok:
        raise registry.refused(_said(answer), path)
    return [*manifest.read_list(answer.content, path)]


def _add(registry: Registry, digest: str, entries: Sequence[Entry]) -> None:
    """Add entries to what the tag lists; what is there, others' too, stays."""
    before = _tagged(registry, digest)
    known = {entry.get("digest") for entry in before}
    if new := [entry for entry in entries if entry["digest"] not in known]:
        answer = registry.ask("PUT", _path(digest), manifest.write_list([*before, *new]))
        if not answer.ok:
            raise registry.refused(_said(answer), _path(digest))


def _path(digest: str) -> str:
    return f"manifests/{digest.replace(':', '-')}"


def _said(answer: requests.Response) -> str:
    return f"status code {answer.status_code}: {answer.text[:200]}"
