"""The store: whole or absent, shared, honest about the disk."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from images.host.errors import WorldFault
from images.host.store import Store, canonical, default_root, key_of, sha256


def keep(store: Store, data: bytes, name: str = "blob") -> str:
    with store.aside() as path:
        path.write_bytes(data)
        digest = sha256(path)
        store.keep(path, digest, name)
    return digest


def test_a_kept_blob_is_found_and_nothing_is_left_aside(tmp_path: Path) -> None:
    store = Store(tmp_path)

    digest = keep(store, b"data", "a.whl")

    found = store.blob(digest, "a.whl")
    assert found and found.read_bytes() == b"data"
    assert list((tmp_path / "aside").iterdir()) == []


def test_a_damaged_blob_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = keep(store, b"data")
    path = store.blob(digest)
    assert path
    path.write_bytes(b"dat")

    assert store.whole(digest, "blob") is None
    assert store.blob(digest) is None


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    with pytest.raises(KeyboardInterrupt), store.aside() as path:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    assert list((tmp_path / "aside").iterdir()) == []


def test_a_half_written_record_is_no_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_record("locks", "a", {"x": 1})
    assert store.record("locks", "a") == {"x": 1}

    (tmp_path / "records/locks/a").write_bytes(b'{"x":')

    assert store.record("locks", "a") is None


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "make room"), (errno.EROFS, "set XDG_CACHE_HOME"), (errno.EACCES, "set XDG_CACHE_HOME")],
)
def test_a_disk_that_refuses_is_named(tmp_path: Path, number: int, remedy: str) -> None:
    store = Store(tmp_path)

    with pytest.raises(WorldFault, match="cannot write to the store") as caught, store.aside():
        raise OSError(number, "no")

    assert caught.value.remedy.startswith(remedy)
    assert str(tmp_path) in caught.value.value


def test_equal_values_have_equal_keys() -> None:
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    assert canonical({"b": 1, "a": 2}) == b'{"a":2,"b":1}'


def test_the_store_follows_xdg() -> None:
    assert default_root({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/multinode")
    assert default_root({"HOME": "/h"}) == Path("/h/.cache/multinode")


def test_a_name_is_held_by_one_build_at_a_time(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), list[bool]()
    done = tmp_path / "done"

    def second() -> None:
        with store.alone("key"):
            seen.append(done.exists())

    with store.alone("key"):
        thread = threading.Thread(target=second)
        thread.start()
        done.touch()
    thread.join(timeout=10)

    assert seen == [True]
    assert list((tmp_path / "locks").iterdir()) == []
