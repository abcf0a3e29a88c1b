"""A bundle: written from the store, taken into another, and refused when something is wrong with it."""

from __future__ import annotations

import errno
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from images.debian.deb import Deb
from images.host.errors import Fault, UserFault, WorldFault, system_fault
from images.lock import bundle, collect
from images.lock.lock import Examples, Lock
from images.oci import layer_writer
from images.plan.plan import SourceOnly
from images.plan.user_files import USER_FILE, UserFile
from images.store.store import Store
from tests.support import locks, stores
from tests.support.hostile import END, entry


def keep(store: Store, name: str) -> str:
    return stores.keep(store, name.encode(), name)


@pytest.fixture
def locked(store: Store) -> Lock:
    files = ("torch-2.13.0+cpu-py3-none-any.whl", "transformers-5.23.0-py3-none-any.whl", "seqeval-1.tar.gz")
    artifacts = []
    for file in files:
        name, version = file.removesuffix(".tar.gz").split("-")[:2]
        artifacts.append(replace(locks.artifact(name, version, file, keep(store, file)), url=""))
    debs = (Deb("tini", "1", "amd64", "tini_1_amd64.deb", keep(store, "tini_1_amd64.deb")),)
    scripts = Examples("examples.tar", keep(store, "examples.tar"))
    digest = stores.keep(store, b"train", USER_FILE)
    mine = (UserFile("a/__init__.py", digest), UserFile("b/__init__.py", digest), UserFile("c", target="a"))
    rows = (SourceOnly("seqeval", "1", ()),)
    return locks.lock(artifacts, debs, examples=scripts, source_only=rows, user_files=mine)


def test_a_bundle_fills_another_store(locked: Lock, store: Store, tmp_path: Path) -> None:
    place = bundle.write_bundle(locked, store, str(tmp_path / "bundle.tar"))
    other = Store(tmp_path / "other")

    text = bundle.take_bundle(str(place), other)

    assert collect.list_missing_files(locked, other) == []
    assert 'filename = "tini_1_amd64.deb"' in text
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["bundle.tar", "other", "store"])


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_bundle_may_have_names_that_no_header_of_a_tar_has_room_for(
    locked: Lock, store: Store, tmp_path: Path, is_made_again: bool
) -> None:
    """That of a wheel, and all that another program wrote, which made one of its files."""
    project = "long" * 30
    name = f"{project}-1-py3-none-any.whl"
    more = replace(locks.artifact(project, "1", name, keep(store, name)), url="")
    longer = replace(locked, artifacts=(*locked.artifacts, more))
    place = bundle.write_bundle(longer, store, str(tmp_path / "bundle.tar"))
    if is_made_again:
        with tarfile.open(place) as tar:
            tar.extraction_filter = lambda member, _: member  # Debian 12's Python has no `filter` for extractall
            tar.extractall(tmp_path / "files")
        with tarfile.open(place, "w", format=tarfile.GNU_FORMAT) as tar:
            tar.add(tmp_path / "files", ".")
    other = Store(tmp_path / "other")

    bundle.take_bundle(str(place), other)

    assert collect.list_missing_files(longer, other) == []


def test_a_bundle_that_finds_no_room_is_named_and_leaves_nothing(
    locked: Lock, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")  # that of a write names no file

    monkeypatch.setattr(layer_writer, "stream_file", full)
    with pytest.raises(OSError) as caught:
        bundle.write_bundle(locked, store, str(tmp_path / "bundle.tar"))

    assert system_fault(caught.value).value == str(tmp_path / "bundle.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_two_bundles_are_the_same(locked: Lock, store: Store, tmp_path: Path) -> None:
    one, two = (bundle.write_bundle(locked, store, str(tmp_path / name)) for name in ("1.tar", "2.tar"))

    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("name", "data", "words", "code"),
    [
        ("debs/tini_1_amd64.deb", b"other", ("damaged", "debs/tini_1_amd64.deb"), 1),
        ("wheels/torch-2.13.0+cpu-py3-none-any.whl", None, ("missing", "wheels/torch-2.13.0+cpu-py3-none-any.whl"), 1),
        ("pylock.toml", None, ("not a bundle", "pylock.toml"), 2),
        ("pylock.toml", b"{}", ("not a lock", "pylock.toml"), 2),
    ],
)
def test_what_is_wrong_with_a_bundle_is_named(
    locked: Lock, store: Store, tmp_path: Path, name: str, data: bytes | None, words: tuple[str, ...], code: int
) -> None:
    place = bundle.write_bundle(locked, store, str(tmp_path / "bundle.tar"))
    with tarfile.open(place) as tar:
        files = {info.name: content.read() for info in tar if (content := tar.extractfile(info))}
    spoiled = {**files, name: data}
    place.write_bytes(
        b"".join(entry(path.encode(), content) for path, content in spoiled.items() if content is not None) + END
    )

    with pytest.raises(Fault) as caught:
        bundle.take_bundle(str(place), Store(tmp_path / "other"))

    assert caught.value.exit_code == code
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("size", [700, 4000, 5000])  # in the lock, in a header behind it
def test_a_bundle_that_is_cut_short_is_to_be_copied_again(
    locked: Lock, store: Store, tmp_path: Path, size: int
) -> None:
    place = bundle.write_bundle(locked, store, str(tmp_path / "bundle.tar"))
    os.truncate(place, size)

    with pytest.raises(WorldFault) as caught:
        bundle.take_bundle(str(place), Store(tmp_path / "other"))

    assert (caught.value.fact, caught.value.value) == ("the archive is cut short", str(place))


@pytest.mark.parametrize("name", ["nowhere", "text.tar", "directory"])
def test_what_is_no_bundle_is_refused(tmp_path: Path, store: Store, name: str) -> None:
    (tmp_path / "text.tar").write_text("hello")
    (tmp_path / "directory").mkdir()

    with pytest.raises(UserFault):
        bundle.take_bundle(str(tmp_path / name), store)


def test_a_place_that_is_taken_is_left_alone(locked: Lock, store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("precious")
    (tmp_path / "loop").symlink_to("loop")

    for name in ("mine", "mine/file", "mine/..", "loop"):
        with pytest.raises(UserFault, match="something is there already"):
            bundle.write_bundle(locked, store, str(tmp_path / name))

    assert (tmp_path / "mine/file").read_text() == "precious"
