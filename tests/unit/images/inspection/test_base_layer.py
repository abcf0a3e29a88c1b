"""The Debian base of an image, read from its lowest layer."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from images.debs.apt import Deb
from images.host.errors import WorldFault
from images.host.store import Store
from images.inspection import base_layer
from images.lock.lock import Debian, Lock
from tests.support import locks, stand_in

LIBC, SSHD = (
    Deb("libc6", "2.35-0ubuntu3.8", "amd64", "libc6.deb", "1" * 64),
    Deb("openssh-server", "1:8.9p1-3ubuntu0.10", "amd64", "sshd.deb", "2" * 64),
)
TAR = stand_in.layer(stand_in.SYSTEM)
LOCK = replace(locks.lock(debs=(LIBC, SSHD)), python="3.10")


def without(lock: Lock, *debs: Deb) -> Lock:
    return replace(lock, debian=Debian("bookworm", (), "", debs))


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_the_base_is_the_layer_as_it_is(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "layer"
    path.write_bytes(packed(TAR))
    store = Store(tmp_path / "store")

    found = base_layer.read_base(LOCK, path, store)

    [layer] = found.layers
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert (layer.written.diff_id, layer.written.digest) == (hashlib.sha256(TAR).hexdigest(), digest)
    assert (layer.written.size, layer.written.unpacked) == (path.stat().st_size, len(TAR))
    assert layer.reused and found.name == "debian:bookworm" and found.interpreter == "usr/bin/python3.10"
    assert store.place(digest).read_bytes() == path.read_bytes()  # a copy: the image may go


@pytest.mark.parametrize(
    ("lock", "fact", "value"),
    [
        (replace(LOCK, python="3.11"), "the Debian base has another Python", "3.11 (it has 3.10)"),
        (without(LOCK, LIBC), "packages of the base that nothing in it asks for", "openssh-server 1:8.9p1-3ubuntu0.10"),
        (
            without(LOCK, LIBC, replace(SSHD, version="2")), "packages of the base that nothing in it asks for",
            "openssh-server 1:8.9p1-3ubuntu0.10, openssh-server 2",
        ),
    ],
)  # fmt: skip
def test_another_base_than_that_of_the_lock_is_refused(tmp_path: Path, lock: Lock, fact: str, value: str) -> None:
    (tmp_path / "layer").write_bytes(TAR)

    with pytest.raises(WorldFault) as caught:
        base_layer.read_base(lock, tmp_path / "layer", Store(tmp_path / "store"))

    assert (caught.value.fact, caught.value.value) == (fact, value)
