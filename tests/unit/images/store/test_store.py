"""The store: whole or absent, shared, honest about the disk."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
import requests

from images.host.errors import Damaged, UserFault, WorldFault, system_fault
from images.store import fingerprint
from images.store.blobs import sha256
from images.store.store import FileName, Sha256, Store, default_root
from tests.support.stores import keep


def test_a_blob_of_another_size_is_not_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = keep(store, b"data")

    assert store.has(digest) and store.has(digest, 4)
    assert not store.has("0" * 64) and not store.has(digest, 5)
    assert not store.has(digest)


def test_a_blob_is_read_again_only_when_it_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, read = Store(tmp_path), []
    place = store.place(digest := keep(store, b"content"))

    def counted(path: Path) -> str:
        read.append(path)
        return sha256(path)

    monkeypatch.setattr("images.store.store.sha256", counted)
    assert store.verified(digest, "blob") == place and read == []
    place.write_bytes(b"Content")  # as long as before, and within the same tick of the clock
    assert store.verified(digest, "blob") is None and read == [place]


def test_a_blob_that_was_changed_and_has_its_old_time_is_read_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    place = store.place(digest := keep(store, b"content"))
    before = place.stat()

    while place.stat().st_ctime_ns == before.st_ctime_ns:  # until the clock of the file system ticks
        place.write_bytes(b"Content")
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert (place.stat().st_ino, place.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert store.verified(digest, "blob") is None


def test_what_other_sources_or_other_releases_made_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_reused(sources: str) -> bool:
        monkeypatch.setattr(fingerprint, "sources", lambda: sources)
        return Store(tmp_path).cached("layers", "inputs", lambda: "made").reused

    assert [is_reused(sources) for sources in ("one", "one", "other")] == [False, True, False]
    monkeypatch.setattr(fingerprint, "releases", lambda: {"zstandard": "other"})
    assert not is_reused("one")


@pytest.mark.parametrize(
    "damaged", [b'{"x":', b"\xff", b"[" * 100_000, b"", b"1", b"[]", b"{}", b'"xy"', b'{"x":1}', b'{"x":1,"y":2}']
)
def test_a_damaged_record_is_no_record(tmp_path: Path, damaged: bytes) -> None:
    store = Store(tmp_path)
    store.write_record("locks", "a", {"x": 1})
    assert store.record("locks", "a") == {"x": 1}

    (tmp_path / "records/locks/a").write_bytes(damaged)

    assert store.record("locks", "a") is None


def test_a_record_with_another_value_is_no_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_record("sboms", "a", {"licence": "Apache-2.0", "parts": [1, None]})
    path = tmp_path / "records/sboms/a"
    assert store.record("sboms", "a") == {"licence": "Apache-2.0", "parts": [1, None]}

    path.write_bytes(path.read_bytes().replace(b"Apache", b"Apachf"))

    assert store.record("sboms", "a") is None


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (OSError(errno.ENOSPC, "no"), ""),
        (OSError(errno.EACCES, "no", "/a", None, "/b"), "/b"),
        (requests.Timeout(), None),
    ],
)
def test_what_a_disk_refuses_is_of_the_store_unless_it_names_a_file(
    tmp_path: Path, error: OSError, place: str | None
) -> None:
    store = Store(tmp_path)

    with pytest.raises(OSError) as caught, store.temporary():
        raise error

    assert system_fault(caught.value, "no place").value == ("no place" if place is None else place or str(tmp_path))


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/multinode"),
        ({"HOME": "/h"}, "/h/.cache/multinode"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/multinode"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/multinode"),
        ({"XDG_CACHE_HOME": "./", "HOME": "/h"}, "/h/.cache/multinode"),
        ({"HOME": "relative"}, f"{Path.cwd()}/relative/.cache/multinode"),
        ({"HOME": ""}, "/own/.cache/multinode"),
    ],
)
def test_the_store_follows_xdg(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], root: str) -> None:
    monkeypatch.setenv("HOME", "/own")
    assert default_root(environ) == Path(root)


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/multinode", "/dev/null/multinode", "a" * 300])
def test_a_place_that_cannot_be_a_store(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(OSError) as caught:
        Store(tmp_path / place)

    assert Path(place).parts[0] in system_fault(caught.value).value


def test_a_store_is_for_its_owner_and_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)

    assert [Store(tmp_path / name).root.stat().st_mode & 0o777 for name in ("new", "shared")] == [0o700, 0o755]


OTHER = 65534  # a user
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def give(path: Path) -> None:
    os.chown(path, OTHER, OTHER, follow_symlinks=False)


def link_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("part", ["", "blobs", "uv"])
@pytest.mark.parametrize("change", [pytest.param(give, marks=AS_ROOT), link_away, lambda path: path.chmod(0o777)])
def test_a_store_that_is_not_this_users_alone_is_refused(
    tmp_path: Path, part: str, change: Callable[[Path], None]
) -> None:
    root = tmp_path / "store"
    Store(root)
    (root / "uv").mkdir()
    root.chmod(0o755)
    victim = root / "aside/victim"
    victim.mkdir()
    os.utime(victim, (0, 0))
    change(root / part)

    with pytest.raises(WorldFault, match="is not this user's alone") as caught:
        Store(root)

    assert caught.value.value.startswith(str(root / part)) and victim.resolve().exists()


@AS_ROOT
def test_what_another_user_put_into_a_store_is_not_there(tmp_path: Path) -> None:
    """A forged record would make other bytes pass for a sha256."""
    store = Store(tmp_path)
    path = store.place(digest := keep(store, b"content"))
    path.write_bytes(b"Content")
    store.sha256(path, digest)
    assert store.verified(digest, "blob") == path
    for record in (tmp_path / "records/hashes").iterdir():
        give(record)
    assert store.verified(digest, "blob") is None

    give(store.place(digest := keep(store, b"more")))
    assert store.blob(digest) is None


def test_what_killed_builds_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    """What is new may be of a build that lives."""
    store, victim = Store(tmp_path / "store"), tmp_path / "victim"
    for place in (victim, store.root / "aside/old", store.root / "aside/new"):
        place.mkdir()
        (place / "data").touch()
    (store.root / "aside/link").symlink_to(victim)
    for old in (victim, store.root / "aside/old"):
        os.utime(old, (0, 0))

    Store(tmp_path / "store")

    assert sorted(path.name for path in (store.root / "aside").iterdir()) == ["link", "new"]
    assert (victim / "data").exists()


@pytest.mark.parametrize(("directory", "mode"), [(True, 0o700), (False, 0o600)])
def test_what_is_being_written_is_its_owners_and_stays_whatever_the_clock_says(
    tmp_path: Path, directory: bool, mode: int
) -> None:
    store = Store(tmp_path)
    with store.temporary(directory=directory) as path:
        assert stat.S_IMODE(path.stat().st_mode) == mode
        os.utime(path.parent, (0, 0))
        Store(tmp_path)
        assert path.exists()
    assert not path.parent.exists()


GOOD = "0" * 64
ODD_DIGESTS = [
    "",
    "0" * 63,
    "0" * 65,
    "A" * 64,
    "../" * 21 + "x",
    "/etc/passwd".ljust(64, "/"),
    3,
    None,
    "0" * 64 + "\n",
]
ODD_NAMES = ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0b", "a\nb", "a\x1b[2J", "x" * 256, 3, None]


@pytest.mark.parametrize("digest", ODD_DIGESTS)
def test_only_64_hexadecimal_digits_are_a_sha256(digest: object) -> None:
    with pytest.raises(UserFault, match="not a sha256"):
        Sha256(digest)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_only_a_name_within_one_directory_is_a_file_name(name: object) -> None:
    with pytest.raises(UserFault, match="not the name of a file"):
        FileName(name)


@pytest.mark.parametrize(
    ("digest", "name"), [("../../victim", "blob"), (GOOD, "../../../victim"), (GOOD, "{root}/victim")]
)
def test_no_caller_reads_writes_or_removes_outside_of_the_store(tmp_path: Path, digest: str, name: str) -> None:
    store, victim = Store(tmp_path / "store"), tmp_path / "victim"
    victim.write_text("precious")
    name = name.replace("{root}", str(tmp_path))
    with store.temporary() as mine:
        mine.write_text("evil")
        for call in (store.blob, store.verified, lambda d, n: store.keep(mine, d, n)):
            with pytest.raises(UserFault):
                call(digest, name)

    assert victim.read_text() == "precious"


def test_a_link_in_the_store_is_no_blob(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (tmp_path / "secret").write_text("secret")
    place = store.place(GOOD)
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "secret")

    assert store.blob(GOOD) is None
    with pytest.raises(Damaged):
        store.whole(GOOD)


def test_a_store_has_room_for_temporary_files_where_nothing_else_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "gettempdir", mock.Mock(side_effect=FileNotFoundError))

    Store(tmp_path)

    assert tempfile.tempdir == str(tmp_path / "aside")
