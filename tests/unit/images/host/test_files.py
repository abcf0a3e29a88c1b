"""Files that are written aside: whole or not there, also where another process writes the same one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from images.host.files import hard_link, replacing, write_whole


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


def test_where_there_can_be_no_link_there_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "one").write_text("text")

    hard_link(tmp_path / "one", tmp_path / "two")

    assert (tmp_path / "two").read_text() == "text"
