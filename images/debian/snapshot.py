"""Packages that Debian's mirrors have no longer: its snapshots keep every one that was ever in the archive.

Its interface for programs finds a file by name and version, and calls it by its sha1. What it sends has to have the
sha256 of the lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from images.context import Context
from images.debian import archive, mirrors
from images.debian.debs import Deb
from images.foreign import documents
from images.host import limits
from images.host.errors import WorldFault
from images.servers.download import MOVED

SERVER = f"https://snapshot.{mirrors.DOMAIN}"


def places(debs: Iterable[Deb], context: Context) -> dict[Deb, str]:
    """Return where packages can be downloaded; none of them where the server cannot be reached."""
    addresses = {}
    for one in debs:
        version = quote(one.version, safe="")
        url = f"{SERVER}/mr/binary/{one.package}/{version}/binfiles"
        try:
            answer = archive.read_document(url, limits.ANSWER, context)
        except WorldFault as fault:
            if fault.kind == MOVED:  # it does not know this one
                continue
            return {}
        if name := _file(answer, one.architecture):
            addresses[one] = f"{SERVER}/file/{name}"
    return addresses


def _file(answer: bytes, architecture: str) -> str | None:
    """Return the sha1 of the file for an architecture."""
    try:
        rows = {row["architecture"]: str(row["hash"]) for row in documents.parse_json(answer)["result"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    name = rows.get(architecture)
    return name if name and name.isalnum() else None
