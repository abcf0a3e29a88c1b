"""What a lock names is brought into the store, and looked at before it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.debs import apt
from images.host.errors import WorldFault
from images.host.pip_config import Sources
from images.host.store import Store, sha256
from images.lock import collect
from tests.support import locks
from tests.support.wheels import pack


@pytest.mark.parametrize("kind", [WorldFault, apt.Unverified])
def test_without_a_network_what_is_remembered_counts_but_a_bad_signature_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[WorldFault]
) -> None:
    def resolve(*_: object) -> None:
        raise kind("a mirror", "of Debian", "nothing")

    monkeypatch.setattr(apt, "resolve", resolve)
    context = locks.context(Store(tmp_path), Sources(), {})

    if kind is apt.Unverified:
        with pytest.raises(apt.Unverified):
            collect.unsigned(locks.lock(), context)
    else:
        assert collect.unsigned(locks.lock(), context) == [locks.TINI]


@pytest.mark.parametrize("name", ["thing/a.py", "../evil.py"])
def test_a_wheel_is_looked_at_before_it_is_used(tmp_path: Path, name: str) -> None:
    store, path = Store(tmp_path / "store"), pack(tmp_path, {name: b"x"})
    digest, filename = sha256(path), path.name
    locked = locks.lock([locks.artifact("thing", "1.0", filename, digest)], debs=())
    kept = store.keep(path, digest, filename)

    if name.startswith(".."):
        with pytest.raises(WorldFault, match="cannot install a wheel"):
            collect.packages(locked, locks.context(store, None, {}))
    else:
        assert collect.packages(locked, locks.context(store, None, {})) == [collect.Wheel("thing", "1.0", digest, kept)]
