"""A directory of ours on a volume of others: what is opened there."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from multinode_image.errors import LATER, Refusal
from multinode_image.results import shared
from multinode_image.results.shared import make_shared, open_shared


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "output" / "_multinode"


def link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("name", ["run.json", "lock"])
@pytest.mark.parametrize("make", [link, os.mkfifo, os.mkdir])
def test_only_a_plain_file_is_opened(place: Path, make: Callable[[Path], object], name: str) -> None:
    place.mkdir(parents=True)
    make(place / name)
    shared = make_shared(str(place))
    with pytest.raises(Refusal) as error:
        shared.read(name) if name != "lock" else shared.lock(0)
    assert error.value.value == f"{place}/{name}" and error.value.code == 1


def test_a_link_is_no_directory_of_ours(place: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    place.parent.mkdir()
    place.symlink_to(tmp_path / "private")
    for act in (make_shared, open_shared):
        with pytest.raises(Refusal, match="link"):
            act(str(place))
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700


@pytest.mark.parametrize(("mode", "expected"), [(0o2775, 0o2775), (0o700, 0o775), (0o777, 0o777)])
def test_it_keeps_the_bits_of_its_volume(place: Path, mode: int, expected: int) -> None:
    place.mkdir(parents=True)
    place.chmod(mode)
    shared = make_shared(str(place))
    shared.write("run.json", "text", 10**18)
    assert open_shared(str(place)) == shared
    assert (place / "run.json").stat().st_mtime_ns == 10**18
    assert shared.read("run.json") == "text" and shared.read("none") is None
    assert stat.S_IMODE(place.stat().st_mode) == expected
    assert [path.name for path in place.iterdir()] == ["run.json"]


def test_a_file_is_replaced_whole_by_one_of_now_and_no_link_is_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    shared = make_shared(str(place))
    (place / "state").symlink_to(tmp_path / "precious")

    shared.write("state", "text")

    assert (tmp_path / "precious").read_text() == "precious" and not (place / "state").is_symlink()
    assert shared.read("state") == "text" and (place / "state").stat().st_mtime > 1e9
    assert stat.S_IMODE((place / "state").stat().st_mode) == 0o664


def test_an_error_of_the_volume_is_not_called_a_stranger(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its remedy is to remove what is there."""

    def fail(*_: object) -> os.stat_result:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "lstat", fail)
    with pytest.raises(OSError, match="Stale file handle"):
        open_shared(str(place))


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(place: Path) -> None:
    (place / "run.json").mkdir(parents=True)

    with pytest.raises(OSError, match="directory"):
        make_shared(str(place)).write("run.json", "text", 10**18)

    assert [path.name for path in place.iterdir()] == ["run.json"]


@pytest.mark.parametrize("left", ["", "x" * 99])
def test_who_finds_a_lock_taken_is_told_by_which_host(place: Path, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    directory = make_shared(str(place))
    (place / "lock").write_text(left)
    opened = directory.lock(0)
    assert opened is not None and os.get_inheritable(opened)
    os.close(opened)
    monkeypatch.setattr(shared, "try_lock", lambda _: False)

    with pytest.raises(shared.Busy) as caught:
        directory.lock(0)

    assert (caught.value.value, caught.value.code) == (f"{place}: a job on {os.uname().nodename}", LATER)
    answers = iter([False, True])
    monkeypatch.setattr(shared, "PAUSE", 0)
    monkeypatch.setattr(shared, "try_lock", lambda _: next(answers))
    opened = directory.lock(60)
    assert opened is not None and open_shared(f"{place}/none") is None
    os.close(opened)


@pytest.mark.parametrize(
    ("fails", "is_ours"),
    [(None, True), (errno.EAGAIN, False), (errno.EACCES, False), (errno.ENOLCK, None), ("silent", None)],
)
def test_a_lock_is_ours_another_s_or_none(
    monkeypatch: pytest.MonkeyPatch, fails: int | str | None, is_ours: bool | None
) -> None:
    asked, released = list[tuple[int, int]](), threading.Event()

    def lock(opened: int, how: int) -> None:
        asked.append((opened, how))
        assert threading.current_thread().daemon, "Python waits for no server that is gone"
        if fails == "silent":
            released.wait(10)
        elif isinstance(fails, int):
            raise OSError(fails, "no")

    monkeypatch.setattr(fcntl, "lockf", lock)
    monkeypatch.setattr(shared, "SILENT", 0.01 if fails == "silent" else 10)

    assert shared.try_lock(7) is is_ours
    released.set()
    assert asked == [(7, fcntl.LOCK_EX | fcntl.LOCK_NB)]
