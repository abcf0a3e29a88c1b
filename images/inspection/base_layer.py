"""The Debian base of an image that is verified, read from its own layer: nothing of it is run."""

from __future__ import annotations

import shutil
from pathlib import Path

from images.base import debian, inspect
from images.base.base import Base
from images.host.store import Store, sha256
from images.lock.lock import Lock
from images.oci import compression, packing
from images.oci.layer import Layer, Written


def read_base(lock: Lock, layer: Path, store: Store) -> Base:
    """Return the base that a layer is; a copy of it goes into the store.

    Raises WorldFault when it has another Python or other packages than the lock.
    """
    with compression.opened(layer) as plain:
        plain.rest()
        diff_id = plain.sha256
    facts, (unpacked,) = inspect.read_facts([(layer, f"sha256:{diff_id}")], {})
    digest = sha256(layer)
    with store.aside() as path:
        shutil.copyfile(layer, path)
        store.keep(path, digest)
    written = Written(diff_id, digest, layer.stat().st_size, unpacked)
    return debian.base_of(lock.debian, Layer(packing.BASE, written, reused=True), facts, lock.python)
