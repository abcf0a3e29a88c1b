"""A bundle: written from the store, taken into another, and refused when something is wrong with it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from images.host.errors import Fault, UserFault, WorldFault
from images.host.store import Store
from images.lock import bundle, collect, lockfile
from images.model import Deb, Examples, Lock
from tests.support import locks
from tests.support.hostile import END, entry, pax


def keep(store: Store, name: str) -> str:
    data = name.encode()
    digest = hashlib.sha256(data).hexdigest()
    with store.aside() as path:
        path.write_bytes(data)
        store.keep(path, digest, name)
    return digest


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def locked(store: Store) -> Lock:
    names = {
        "torch": "torch-2.13.0+cpu-x.whl",
        "transformers": "transformers-5.23.0-x.whl",
        "seqeval": "seqeval-1.tar.gz",
    }
    artifacts = [replace(locks.artifact(name, "1", file, keep(store, file)), url="") for name, file in names.items()]
    debs = (Deb("tini", "1", "amd64", "tini_1_amd64.deb", keep(store, "tini_1_amd64.deb")),)
    return locks.lock(artifacts, debs, examples=Examples("examples.tar", keep(store, "examples.tar")))


@pytest.mark.parametrize("name", ["bundle", "bundle.tar"])
def test_a_bundle_fills_another_store(locked: Lock, store: Store, tmp_path: Path, name: str) -> None:
    place = bundle.write(locked, store, str(tmp_path / name))
    other = Store(tmp_path / "other")

    text = bundle.take(str(place), other)

    assert collect.missing(locked, other) == []
    assert 'filename = "tini_1_amd64.deb"' in text
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "other", "store"])


def test_a_lock_that_finds_no_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched, pytest.raises(WorldFault) as caught:
        patched.setattr(Path, "write_bytes", full)
        bundle.write_lock(locks.lock(), tmp_path / "pylock.toml")
    assert caught.value.value == f"{tmp_path / 'pylock.toml'} (full)"

    bundle.write_lock(locks.lock(), tmp_path / "pylock.toml")
    assert (tmp_path / "pylock.toml").read_text() == lockfile.text(locks.lock(), with_origin=True)


@pytest.mark.parametrize("name", ["bundle", "bundle.tar"])
def test_a_bundle_that_finds_no_room_is_named_and_leaves_nothing(
    locked: Lock, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(source: Path, place: Path) -> None:
        raise OSError(errno.ENOSPC, "full", str(source), None, str(place))

    def full_tar(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")  # that of a write names no file

    monkeypatch.setattr(shutil, "copyfile", full)
    monkeypatch.setattr(tarfile.TarFile, "addfile", full_tar)
    with pytest.raises(WorldFault) as caught:
        bundle.write(locked, store, str(tmp_path / name))

    assert caught.value.value == f"{tmp_path / name} (full)"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("name", ["bundle", "bundle.tar"])
def test_a_file_of_the_store_that_cannot_be_read_is_not_the_bundles_fault(
    locked: Lock, store: Store, tmp_path: Path, name: str
) -> None:
    gone = store.place(*locked.files()[0])
    gone.unlink()

    with pytest.raises(FileNotFoundError, match=re.escape(gone.name)):
        bundle.write(locked, store, str(tmp_path / name))

    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_bundle_goes_on_where_one_was_killed(locked: Lock, store: Store, tmp_path: Path) -> None:
    """In a container both may have the same PID."""
    before = tmp_path / f".bundle.{os.getpid()}"
    for left in (before, tmp_path / ".bundle.0a_b1c2d"):
        (left / "written/wheels").mkdir(parents=True)
    (tmp_path / ".bundle.0a_b1c2d/held").touch()

    bundle.write(locked, store, str(tmp_path / "bundle"))

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([before.name, "bundle", "store"])


def test_two_bundles_are_the_same(locked: Lock, store: Store, tmp_path: Path) -> None:
    one, two = (bundle.write(locked, store, str(tmp_path / name)) for name in ("1.tar", "2.tar"))

    assert one.read_bytes() == two.read_bytes()


def test_sums_are_those_of_sha256sum(locked: Lock, store: Store, tmp_path: Path) -> None:
    place = bundle.write(locked, store, str(tmp_path / "bundle"))

    for line in (place / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((place / name).read_bytes()).hexdigest() == digest


def damage(place: Path) -> None:
    (place / "debs/tini_1_amd64.deb").write_text("other")


def lose(place: Path) -> None:
    (place / "wheels/torch-2.13.0+cpu-x.whl").unlink()


def lose_lock(place: Path) -> None:
    (place / "pylock.toml").unlink()


def change_lock(place: Path) -> None:
    (place / "pylock.toml").write_text("{}")


def lose_sums(place: Path) -> None:
    (place / "SHA256SUMS").unlink()


def escape(place: Path) -> None:
    (place / "SHA256SUMS").write_text(f"{'0' * 64}  ../../etc/passwd\n")


def point_at(place: Path) -> None:
    """Write a path of 64 characters where a sha256 belongs; the file below it must stay."""
    (place.parent / "victim").mkdir()
    (place.parent / "victim/id_rsa").write_text("precious")
    (place / "SHA256SUMS").write_text(f"{f'{place.parent}/victim'.ljust(64, '/')[-64:]}  wheels/id_rsa\n")


def put_a_directory(place: Path) -> None:
    (place / "debs/tini_1_amd64.deb").unlink()
    (place / "debs/tini_1_amd64.deb").mkdir()


def put_a_pipe(place: Path) -> None:
    (place / "debs/tini_1_amd64.deb").unlink()
    os.mkfifo(place / "debs/tini_1_amd64.deb")


@pytest.mark.parametrize(
    ("spoil", "words", "code"),
    [
        (damage, ("damaged", "debs/tini_1_amd64.deb"), 1),
        (lose, ("missing", "wheels/torch-2.13.0+cpu-x.whl"), 1),
        (lose_lock, ("missing", "pylock.toml"), 1),
        (change_lock, ("damaged", "pylock.toml"), 1),
        (lose_sums, ("not a bundle", "SHA256SUMS"), 2),
        (escape, ("damaged", "SHA256SUMS"), 1),
        (point_at, ("damaged", "SHA256SUMS"), 1),
        (put_a_directory, ("missing", "debs/tini_1_amd64.deb"), 1),
        (put_a_pipe, ("missing", "debs/tini_1_amd64.deb"), 1),
    ],
)
def test_what_is_wrong_with_a_bundle_is_named(
    locked: Lock, store: Store, tmp_path: Path, spoil: Callable[[Path], None], words: tuple[str, ...], code: int
) -> None:
    place = bundle.write(locked, store, str(tmp_path / "bundle"))
    spoil(place)

    with pytest.raises(Fault) as caught:
        bundle.take(str(place), Store(tmp_path / "other"))

    assert caught.value.exit_code == code
    assert all(word in str(caught.value) for word in words)
    assert all(path.read_text() == "precious" for path in tmp_path.glob("victim/*"))


@pytest.mark.parametrize("name", ["SHA256SUMS", "wheels/torch-2.13.0+cpu-x.whl", "pylock.toml"])
def test_a_file_of_a_bundle_that_cannot_be_read_is_named(
    locked: Lock, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place, open_ = bundle.write(locked, store, str(tmp_path / "bundle")), Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> IO[Any]:
        if path == place / name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        opened: IO[Any] = open_(path, *args, **options)
        return opened

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError) as caught:
        bundle.take(str(place), Store(tmp_path / "other"))

    assert caught.value.filename == str(place / name)


@pytest.mark.parametrize("name", ["bundle", "bundle.tar"])
def test_what_the_store_refuses_is_not_the_bundles_fault(locked: Lock, store: Store, tmp_path: Path, name: str) -> None:
    place, other = bundle.write(locked, store, str(tmp_path / name)), Store(tmp_path / "other")
    taken = other.place(*locked.files()[0])
    taken.mkdir(parents=True)

    with pytest.raises(IsADirectoryError) as caught:
        bundle.take(str(place), other)

    assert caught.value.filename2 == str(taken)


def test_a_tar_that_cannot_be_opened_is_refused_with_the_reason(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "b.tar").touch()
    monkeypatch.setattr(tarfile, "open", refuse)
    with pytest.raises(UserFault) as caught:
        bundle.take(str(tmp_path / "b.tar"), store)

    assert (caught.value.value, caught.value.remedy) == (f"{tmp_path}/b.tar (Permission denied)", bundle.REMEDY)


def test_a_pipe_is_not_waited_for(tmp_path: Path, store: Store) -> None:
    os.mkfifo(tmp_path / "bundle.tar")

    with pytest.raises(UserFault, match="what is there is not a file"):
        bundle.take(str(tmp_path / "bundle.tar"), store)


@pytest.mark.parametrize("size", [700, 4000, 5000])  # in the list of sums, in the lock, in a header behind it
def test_a_bundle_that_is_cut_short_is_to_be_copied_again(
    locked: Lock, store: Store, tmp_path: Path, size: int
) -> None:
    place = bundle.write(locked, store, str(tmp_path / "bundle.tar"))
    os.truncate(place, size)

    with pytest.raises(WorldFault) as caught:
        bundle.take(str(place), Store(tmp_path / "other"))

    assert (caught.value.fact, caught.value.value) == ("the archive is cut short", str(place))


@pytest.mark.parametrize("name", ["nowhere", "text.tar", "large.tar", "odd.tar"])
def test_what_is_no_bundle_is_refused(tmp_path: Path, store: Store, name: str) -> None:
    (tmp_path / "text.tar").write_text("hello")
    sums = entry(bundle.SUMS.encode(), b"0" * 64 + b"  wheels/a.whl\n")
    for other, key, value in (("large", b"GNU.sparse.size", b"%d" % (1 << 40)), ("odd", b"GNU.sparse.map", b"a,b")):
        records = entry(b"x", pax(key, value) + pax(b"GNU.sparse.name", b"wheels/a.whl"), b"x")
        (tmp_path / f"{other}.tar").write_bytes(sums + records + entry(b"a") + END)

    with pytest.raises(UserFault):
        bundle.take(str(tmp_path / name), store)


def test_a_mounted_disk_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle is moved to its place when it is whole: that failed after all the work."""
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)

    with pytest.raises(UserFault, match="cannot take the place of a mounted disk") as caught:
        bundle.require_free(str(tmp_path))

    assert caught.value.remedy == f"--output {tmp_path}/bundle"
    assert bundle.require_free(f"{tmp_path}/bundle") == tmp_path / "bundle"


def test_a_bundle_that_cannot_be_written_is_refused_before_the_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda place, _: place != tmp_path)
    with pytest.raises(UserFault, match="nothing can be written there"):
        bundle.require_free(f"{tmp_path}/new/bundle.tar")


def test_a_place_that_is_taken_is_left_alone(locked: Lock, store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("precious")
    (tmp_path / "empty.tar").mkdir()
    (tmp_path / "loop").symlink_to("loop")

    for name in ("mine", "mine/file", "mine/..", "empty.tar", "loop"):
        with pytest.raises(UserFault, match="something is there already"):
            bundle.write(locked, store, str(tmp_path / name))

    assert (tmp_path / "mine/file").read_text() == "precious"


def test_what_is_missing_offline_is_named_with_its_origin(locked: Lock, tmp_path: Path) -> None:
    empty = locks.context(Store(tmp_path / "empty"), None, {})

    with pytest.raises(Fault) as caught:
        collect.packages(replace(locked, examples=None), empty)

    for word in ("torch-2.13.0+cpu-x.whl", "tini_1_amd64.deb (Debian's mirror", "seqeval-1.tar.gz (PyPI)", "--offline"):
        assert word in str(caught.value)


def test_a_directory_in_the_place_of_a_file_in_a_tar_counts_as_missing(
    locked: Lock, store: Store, tmp_path: Path
) -> None:
    place = bundle.write(locked, store, str(tmp_path / "bundle"))
    put_a_directory(place)
    with tarfile.open(tmp_path / "bundle.tar", "w") as tar:
        for path in sorted(place.rglob("*")):
            tar.add(path, path.relative_to(place).as_posix(), recursive=False)

    with pytest.raises(Fault, match="missing"):
        bundle.take(str(tmp_path / "bundle.tar"), Store(tmp_path / "other"))
