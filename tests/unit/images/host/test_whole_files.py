"""Files that are written aside: whole or not there, also where another process writes the same one, or was killed."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from images.host.whole_files import HELD, link, locked, replacing, write_whole


def refusing(number: int) -> Callable[..., None]:
    """Return a link(2) that fails."""

    def link(*_: object) -> None:
        raise OSError(number, "no")

    return link


@pytest.mark.parametrize("name", ["file", "link"])
def test_a_write_that_finds_no_room_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(path: Path, data: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "full")

    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to("file")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
        patched.setattr(Path, "write_bytes", full)
        write_whole(tmp_path / name, b"new")
    assert (tmp_path / "file").read_text() == "precious"

    write_whole(tmp_path / name, b"new")

    assert (tmp_path / "file").read_text() == "new" and (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_pipe_stays_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(tmp_path / "pipe", b"text")

        assert os.read(reader, 1 << 16) == b"text"
        assert (tmp_path / "pipe").is_fifo()
    finally:
        os.close(reader)


def test_two_that_write_one_file_at_once_write_each_their_own(tmp_path: Path) -> None:
    """In two containers both may have the same PID."""
    place = tmp_path / "image.tar"
    with replacing(place) as one:
        one.write_bytes(b"half of one")
        with replacing(place) as other:
            other.write_bytes(b"other")
        assert (one.read_bytes(), place.read_bytes()) == (b"half of one", b"other")
        one.write_bytes(b"one")

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"image.tar": b"one"}


@pytest.mark.parametrize(
    ("name", "files", "stays"),
    [
        (".a[1].tar.0a_b1c2d", (HELD, "written"), False),
        (".a[1].tar.0a_b1c2d", (HELD,), False),
        (".a[1].tar.0a_b1c2d", ("written",), False),  # the removal of what a killed one left was interrupted
        (".a[1].tar.0a_b1c2d", ("letters",), True),
        (".a[1].tar.0a_b1c2d", (), True),
        (".a[1].tar.old", (HELD, "written"), True),
        (".a1.tar.0a_b1c2d", (HELD, "written"), True),
        (".a[1].tar.x.0a_b1c2d", (HELD, "written"), True),
    ],
)
def test_what_a_killed_one_left_of_the_same_place_is_removed(
    tmp_path: Path, name: str, files: tuple[str, ...], stays: bool
) -> None:
    (tmp_path / name).mkdir()
    for each in files:
        (tmp_path / name / each).touch()

    with replacing(tmp_path / "a[1].tar") as aside:
        assert (tmp_path / name).exists() == stays
        aside.touch()

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a[1].tar", *([name] if stays else [])])


def test_a_disk_without_locks_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", refusing(errno.ENOLCK))

    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as other:
        one.touch()
        other.touch()

    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_there_can_be_no_link_there_is_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", refusing(number))
    (tmp_path / "one").write_text("text")

    link(tmp_path / "one", tmp_path / "two")

    assert (tmp_path / "two").read_text() == "text"


@pytest.mark.parametrize("seen", [True, False])
def test_a_lock_that_is_removed_while_it_is_waited_for_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """It may have been `seen` a moment before."""
    place, calls = tmp_path / "locks/a", list[int]()

    def flock(*_: object) -> None:
        calls.append(1)
        if len(calls) == 1:
            place.unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    if seen:
        monkeypatch.setattr(Path, "exists", lambda _: True)

    with locked(place):
        assert len(calls) == 2
        assert os.path.lexists(place)
