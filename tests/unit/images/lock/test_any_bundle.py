"""Whatever a bundle or a lock holds, it is taken or refused by a Fault: within bounds, and nothing else changes."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from images.base.base import BaseImage
from images.host.errors import Fault, UserFault
from images.lock import bundle, collect, lockfile
from images.lock.lock import Examples, Lock
from images.oci.manifest import Descriptor, Manifest
from images.plan.plan import Request, SourceOnly
from images.store import fingerprint
from images.store.store import Store
from tests.support import hostile, locks
from tests.support.hostile import END, entry, named, watched

MEMORY = 80 << 20  # bytes: room for the longest lock that is read, which is set aside before it is read
ASKED = Request(torch="2.13", python="3.11", transformers="5.23.0", base="debian", backend="gloo")
DIGEST = "sha256:" + "d" * 64
PART = Descriptor("application/octet-stream", DIGEST, 7)
LOCKS = [
    locks.lock(examples=Examples("examples.tar", "2" * 64), module="m", undated=("torch",)),
    locks.lock(
        [locks.artifact("torch", "1"), locks.artifact("transformers", "1"), locks.artifact("a", "1", "a-1.tar.gz")],
        source_only=(SourceOnly("a", "1", ("b>1",)),), base=DIGEST,
        base_image=BaseImage(Manifest(DIGEST, PART, (PART,)), ("torch",)),
    ),
]  # fmt: skip

toml = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(st.characters(codec="utf-8"), max_size=9)
    | st.dates() | st.times() | st.datetimes()
    | st.sampled_from(["9" * 5000, "1." * 3000 + "1", "..", "/etc/passwd", "--upgrade", "a\0b", "\n", "x" * 70_000])
    | st.sampled_from(["a-1-py3-none-any.whl", "1" * 64, DIGEST, "3.11", "1.0", "a[b]>=1; python_version<'3'"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
edits = st.lists(st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=6), toml), min_size=1, max_size=3)


def nothing(*_: object) -> None:
    """Stand in for a download."""


def use(text: str, store: Store) -> None:
    """Read a lock, and do with it what a build does before the first download."""
    for asked in (Request(), ASKED):
        try:
            lock = lockfile.read_lock(text, "x", asked)
        except Fault as fault:
            assert fault.value and fault.remedy
            continue
        again(lock, store)


def again(lock: Lock, store: Store) -> None:
    assert lockfile.read_lock(lockfile.format_lock(lock), "x", Request()).files() == lock.files()
    assert lock.tag and lock.version("torch")
    collect.list_missing_files(lock, store)
    for artifact in lock.artifacts:
        assert artifact.filename.endswith(".whl") or any(row.name == artifact.name for row in lock.source_only)


@pytest.fixture(scope="module", autouse=True)
def soon() -> Any:
    """Leave out what takes time and is the same for every example: a disk that is waited for, releases of packages."""
    releases, files = fingerprint.releases(), fingerprint.sources()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "releases", lambda: releases)
        patch.setattr(fingerprint, "sources", lambda: files)
        patch.setattr(os, "fsync", nothing)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any")


@given(which=st.sampled_from(LOCKS), edits=edits)
def test_any_lock_is_read_or_refused(place: Path, which: Lock, edits: list[tuple[list[int], object]]) -> None:
    fields: object = copy.deepcopy(lockfile.lock_fields(which, with_origin=True))
    for path, new in edits:
        fields = hostile.replaced(fields, path, new)
    if isinstance(fields, dict):
        with watched(place, MEMORY) as scratch:
            use(tomli_w.dumps(fields), Store(scratch / "store"))


@given(which=st.sampled_from(LOCKS), at=hostile.changes)
def test_any_bytes_of_a_lock_are_read_or_refused(place: Path, which: Lock, at: list[hostile.Change]) -> None:
    data = hostile.changed(lockfile.format_lock(which, with_origin=True).encode(), at)
    with watched(place, MEMORY) as scratch:
        use(data.decode(errors="replace"), Store(scratch / "store"))


TABLE = lockfile.format_lock(LOCKS[0])
HOSTILE_LOCKS = {
    "keys within keys": f"{TABLE}\n[tool.{'a.' * 3000}a]\nb = 1\n",
    "keys within keys of ours": TABLE.replace("[tool.multinode]", f"[tool.multinode]\n{'a.' * 3000}a = 1"),
    "lists within lists": TABLE.replace("[tool.multinode]", f"[tool.multinode]\na = {'[' * 5000}{']' * 5000}"),
    "a version of 5000 digits": TABLE.replace('version = "2.13.0+cpu"', f'version = "{"9" * 5000}"'),
    "a release of 5000 digits": TABLE.replace('torch = "2.13.0"', f'torch = "{"9" * 5000}"'),
    "a number of 5000 digits": TABLE.replace("format = 1", f"format = {'9' * 5000}"),
    "a source archive that nobody lists": lockfile.format_lock(
        locks.lock(
            [locks.artifact("torch", "1"), locks.artifact("transformers", "1"), locks.artifact("a", "1", "a-1.zip")]
        )
    ),
}


@pytest.mark.parametrize("text", HOSTILE_LOCKS.values(), ids=HOSTILE_LOCKS)
def test_a_hostile_lock_is_refused(place: Path, text: str) -> None:
    assert text != TABLE
    with watched(place, MEMORY) as scratch:
        for asked in (Request(), ASKED):
            with pytest.raises(UserFault):
                lockfile.read_lock(text, "x", asked)
        use(text, Store(scratch / "store"))


FILES = {
    name: b"1" if name != "pylock.toml" else TABLE.encode()
    for name in ("pylock.toml", *(lockfile.bundle_path(name) for _, name in LOCKS[0].files()))
}


def take(path: Path, scratch: Path) -> None:
    store = Store(scratch / "store")
    try:
        text = bundle.take_bundle(str(path), store)
    except Fault as fault:
        assert fault.value and fault.remedy
        return
    use(text, store)


@given(at=hostile.changes)
def test_any_lock_of_a_bundle_is_read_or_refused(place: Path, at: list[hostile.Change]) -> None:
    files = {**FILES, "pylock.toml": hostile.changed(TABLE.encode(), at)}
    with watched(place, MEMORY) as scratch:
        path = scratch / "bundle.tar"
        path.write_bytes(b"".join(named(name.encode(), data) for name, data in files.items()) + END)
        take(path, scratch)


@given(tar=hostile.tars, at=st.just([]) | hostile.changes, first=st.booleans())
def test_any_tar_of_a_bundle_is_read_or_refused(place: Path, tar: bytes, at: list[hostile.Change], first: bool) -> None:
    whole = b"".join(entry(name.encode(), data) for name, data in FILES.items())
    with watched(place, MEMORY) as scratch:
        path = scratch / "bundle.tar"
        path.write_bytes(hostile.changed(tar[: -len(END)] + whole + END if first else whole + tar, at))
        take(path, scratch)


@given(data=st.binary(max_size=200))
def test_any_bytes_of_a_bundle_are_read_or_refused(place: Path, data: bytes) -> None:
    with watched(place, MEMORY) as scratch:
        (scratch / "bundle.tar").write_bytes(data)
        take(scratch / "bundle.tar", scratch)
