"""Ranks that answer each other in a directory, each in a thread, with a clock that the test shortens."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from entrypoint.errors import LATER, Refusal
from entrypoint.machine.files import create
from entrypoint.rendezvous import directory
from entrypoint.rendezvous.directory import APART, VERDICT, Seat, follow, lead, meet

TOGETHER = ["checkpoint-8"]
# Shorter, but long enough for a machine that does much else.
WAIT = 1.0


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often."""
    monkeypatch.setattr(directory, "LOOK", 0.01)


def start(places: list[Path], *, late: int | None = None) -> list[str | None]:
    """Let ranks meet, each in its directory, one of them half a second late; return what each of them does."""
    found: list[str | None] = ["?"] * len(places)

    def run(rank: int) -> None:
        if rank == late:
            threading.Event().wait(0.5)
        word = os.urandom(8).hex()
        # Rank 0 has a choice of its own; that of the others does not count.
        try:
            found[rank] = meet(Seat(str(places[rank]), rank, len(places), word, WAIT), f"checkpoint-{8 - rank}")
        except Refusal as refusal:
            found[rank] = str(refusal.code)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(places))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    """Make directories of two nodes."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return [tmp_path / "a", tmp_path / "b"]


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_ranks_that_share_a_directory_do_what_rank_0_says_at_every_start(nodes: list[Path], ranks: int) -> None:
    for _ in range(3):
        assert start([nodes[0]] * ranks) == TOGETHER * ranks


@pytest.mark.parametrize("late", [0, 2])
def test_a_rank_may_come_later(tmp_path: Path, late: int) -> None:
    """Who comes first makes the directory."""
    assert start([tmp_path / "ranks"] * 3, late=late) == TOGETHER * 3


def test_nodes_with_directories_of_their_own_begin_together(nodes: list[Path]) -> None:
    a, b = nodes
    assert start([a, b]) == [None, None]
    assert start([a, a, b, b]) == [None] * 4


def test_nodes_that_have_changed_places_share_nothing(nodes: list[Path]) -> None:
    """A machine was node 0 and then node 1: its directory has the words of both."""
    a, b = nodes
    for _ in range(2):
        assert start([a, b]) == start([b, a]) == [None, None]


def test_who_has_shared_a_directory_does_not_begin_anew_without_the_others(nodes: list[Path]) -> None:
    """A copy of the directory is another one; there all have to start again, as where a rank is late."""
    a, b = nodes
    assert start([a, a]) == TOGETHER * 2
    shutil.copytree(a, b, dirs_exist_ok=True)
    for _ in range(2):
        assert start([a, b]) == [str(LATER)] * 2
    assert start([a, a]) == TOGETHER * 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_starts_again_without_the_others_is_refused(tmp_path: Path, rank: int) -> None:
    assert start([tmp_path] * 2) == TOGETHER * 2
    with pytest.raises(Refusal, match="have met before") as caught:
        meet(Seat(str(tmp_path), rank, 2, "word", WAIT), "checkpoint-8")
    assert caught.value.code == LATER


@pytest.mark.parametrize("rank", [0, 1])
def test_who_comes_too_late_is_alone_and_so_are_all(nodes: list[Path], rank: int) -> None:
    place = nodes[0]
    seats = [Seat(str(place), each, 2, f"{each}" * 16, WAIT) for each in range(2)]
    assert meet(seats[rank], "checkpoint-8") is None
    assert meet(seats[1 - rank], "checkpoint-8") is None


class Moments:
    """A clock on which every look takes a second; at each sleep something happens."""

    def __init__(self, *events: Callable[[], object]) -> None:
        self.seconds, self.events = 0.0, list(events)

    def now(self) -> float:
        self.seconds += 1
        return self.seconds

    def sleep(self, seconds: float) -> None:
        if self.events:
            self.events.pop(0)()


def seat(place: Path, rank: int, clock: Moments) -> Seat:
    return Seat(str(place), rank, 2, f"word{rank}", 9, clock.now, clock.sleep)


def test_rank_0_is_alone_where_another_waited_no_longer(tmp_path: Path) -> None:
    """Both write the verdict in one moment, and the other was faster."""
    (tmp_path / "1").write_text("word1 word0")
    create(f"{tmp_path}/{VERDICT}word0", APART)
    assert lead(seat(tmp_path, 0, Moments()), "checkpoint-8") is None


@pytest.mark.parametrize(
    ("verdict", "found"),
    [
        ('["checkpoint-8", "word1"]', "checkpoint-8"),
        ('["checkpoint-8", "another"]', None),  # of an earlier start
        (APART, None),
        ('["checkpoint-8", "wo', None),
        ("8", None),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_who_waits_no_longer_does_what_the_verdict_says(
    tmp_path: Path, verdict: str, found: str | None, late: bool
) -> None:
    """Rank 0 makes its verdict in that moment, and writes it a moment later."""
    (tmp_path / "0").write_text("word0")
    path = tmp_path / f"{VERDICT}word0"
    if late:
        path.touch()
    clock = Moments(*[int] * 9, lambda: path.write_text(verdict)) if late else Moments(lambda: path.write_text(verdict))
    assert follow(seat(tmp_path, 1, clock)) == found


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for rank in (0, 1):
        with pytest.raises(OSError):
            meet(Seat(f"{tmp_path}/file/ranks", rank, 2, "word", WAIT), "checkpoint-8")


def test_verdicts_of_earlier_starts_are_removed(tmp_path: Path) -> None:
    for _ in range(3):
        start([tmp_path / "ranks"] * 2)
    names = sorted(each.name for each in (tmp_path / "ranks").iterdir())
    assert names[:2] == ["0", "1"] and len(names) == 3 and names[2].startswith(VERDICT)
