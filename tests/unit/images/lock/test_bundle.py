"""A bundle: written from the store, taken into another, and refused when something is wrong with it."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from images.host.errors import Fault, UserFault, WorldFault, of_system
from images.host.store import Store
from images.lock import bundle, collect
from images.model import Deb, Examples, Lock
from tests.support import locks
from tests.support.hostile import END, entry, pax


def keep(store: Store, name: str) -> str:
    data = name.encode()
    digest = hashlib.sha256(data).hexdigest()
    with store.temporary() as path:
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
    with pytest.raises(OSError) as caught:
        bundle.write(locked, store, str(tmp_path / name))

    assert of_system(caught.value).value.startswith((str(tmp_path / name), str(tmp_path / f".{name}.")))
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
