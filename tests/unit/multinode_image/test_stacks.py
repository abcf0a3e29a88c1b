"""`stacks` asks the ranks that it finds by their files; /proc is a directory made up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from multinode_image import stacks
from multinode_image.errors import Refusal
from multinode_image.stacks import DONE, find_doors, print_stacks


class Rank:
    """Make up a rank: the files of its process in /proc, and what it answers."""

    def __init__(self, proc: Path, pid: int, owner: int = 0) -> None:
        self.fd = proc / str(pid) / "fd"
        self.fd.mkdir(parents=True)
        self.answer = proc.parent / f"memfd:multinode-stacks-{owner or pid}-5 (deleted)"
        self.answer.touch()
        (self.fd / "4").symlink_to(self.answer)
        (self.fd / "5").symlink_to(proc.parent / f"pipe-{pid}")
        (proc.parent / f"pipe-{pid}").touch()


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    made = tmp_path / "proc"
    (made / "self").mkdir(parents=True)
    return made


def test_only_ranks_are_asked_and_not_what_they_have_forked(proc: Path) -> None:
    Rank(proc, 17)
    Rank(proc, 18, owner=17)
    (proc / "1" / "fd").mkdir(parents=True)
    (proc / "1" / "fd" / "0").symlink_to("/dev/null")

    doors, closed = find_doors(str(proc))

    assert [door.pid for door in doors] == [17] and not closed
    assert doors[0].pipe == f"{proc}/17/fd/5"


def test_an_answer_is_printed_whole(
    proc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = Rank(proc, 17)
    looks = iter([b"rank 0 is", b"rank 0 is at train.py:4 (sleep)\n  MainThread" + DONE])
    monkeypatch.setattr("time.sleep", lambda _: rank.answer.write_bytes(next(looks)))

    assert print_stacks(str(proc)) == 0
    assert capsys.readouterr().out == "rank 0 is at train.py:4 (sleep)\n  MainThread\n"


def test_a_rank_that_is_stopped_is_named(
    proc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Rank(proc, 17).answer.write_bytes(b"an older answer" + DONE)
    monkeypatch.setattr(stacks, "SECONDS", 0.0)

    assert print_stacks(str(proc)) == 1
    assert capsys.readouterr().out.startswith("process 17 has not answered for 0 s: it is stopped")


@pytest.mark.parametrize(
    ("is_closed", "fact"),
    [(True, "the processes of this container are another user's"), (False, "no rank runs in this container")],
)
def test_without_ranks_the_reason_is_said(
    is_closed: bool, fact: str, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (proc / "1" / "fd").mkdir(parents=True)

    def list_as_another(path: str) -> list[str]:
        if is_closed and path.endswith("fd"):
            raise PermissionError(13, "Permission denied", path)
        return sorted(each.name for each in os.scandir(path))

    monkeypatch.setattr(os, "listdir", list_as_another)
    with pytest.raises(Refusal) as refusal:
        print_stacks(str(proc))
    assert refusal.value.fact == fact
