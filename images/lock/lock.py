"""What a lock says: every file of an image by sha256, and all else that decides its bytes."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from images.host.store import FileName, Sha256
from images.model import Lock
from images.oci import reference

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def require_sense(lock: Lock) -> None:
    """Raise UserFault or ValueError for what has the right type and makes no sense: odd digests and file names."""
    for digest, name in replace(lock, base_image=None).files():
        Sha256(digest)  # refuses any other text
        FileName(name)
    parts = lock.base_image.manifest if lock.base_image else None
    digests = [parts.digest, parts.config.digest, *(layer.digest for layer in parts.layers)] if parts else []
    if odd := [digest for digest in digests if not reference.DIGEST.fullmatch(digest)]:
        raise ValueError(f"a base with the digest {odd[0]!r}")
    if (lock.base_image is None) != (lock.base == "debian"):
        raise ValueError(f"base {lock.base} with{'out' if parts is None else ''} the digests of an image")
    listed = {row.name for row in lock.source_only}
    archives = [one for one in lock.artifacts if not one.filename.endswith(".whl")]
    if unlisted := [one.filename for one in archives if one.name not in listed]:
        raise ValueError(f"{unlisted[0]}, which is no wheel, and no row of source-only for it")
    if absent := {"torch", "transformers"} - {artifact.name for artifact in lock.artifacts}:
        raise ValueError(f"no {' and no '.join(sorted(absent))} in it")
    if lock.odd_backend:
        raise ValueError(lock.odd_backend)
    for name, said in (("torch", lock.torch), ("transformers", lock.transformers)):
        if Version(lock.version(name)).public != Version(said).public:
            raise ValueError(f"{name} {said} with the file of {name} {lock.version(name)}")


@functools.cache
def adapter() -> TypeAdapter[Lock]:
    """Return what makes a lock of plain values, and refuses those that do not fit."""
    from pydantic import TypeAdapter

    return TypeAdapter(Lock)
