"""Who waits for whom, as ranks say it in a store of torch, and rank 0 prints it; the clock is made up."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from multinode_image.hooks.groups import waits
from multinode_image.hooks.groups.waits import BEAT, ENDED, SILENT, Ranks, Sign, Wait, Watch, describe_others
from multinode_image.hooks.job.place import Job
from multinode_image.hooks.job.spot import Spot
from multinode_image.hooks.job.word import IDLE, WORD

BARRIER, SLEEP = Spot("train.py:31", "barrier", True), Spot("prepare.py:17", "sleep", False)


class Clock(SimpleNamespace):
    """A time that only a sleep moves, in the place of the module `time`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    started = Clock()
    monkeypatch.setattr(waits, "time", started)
    return started


def rank(store: dist.Store, number: int, size: int = 2) -> Ranks:
    return Ranks(store, "multinode/0/2/where", number, size)


def watch(ranks: Ranks | None) -> Watch:
    """Return what watches a rank, without its thread."""
    bare = Watch.__new__(Watch)
    bare.ranks, bare.gone, bare.wait, bare.beat, bare.waits, bare.said = ranks, False, Wait(), 0, 0, 0.0
    return bare


def look(one: Watch, spot: Spot, clock: Clock) -> None:
    one.wait.note(spot, (7, 3), clock.now, 0.0)
    one.beat += 1
    assert one.ranks is not None
    one.compare(one.ranks)


@pytest.mark.parametrize(("first", "second"), [(BARRIER, SLEEP), (SLEEP, BARRIER)], ids=["rank 0 waits", "rank 1 does"])
def test_rank_0_says_once_who_waits_for_whom(
    first: Spot, second: Spot, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    store = dist.HashStore()
    both = [watch(rank(store, number)) for number in range(2)]
    for _ in range(40):
        look(both[1], second, clock)
        look(both[0], first, clock)
        clock.now += BEAT

    waiting = int(first is SLEEP)
    assert capsys.readouterr().err == (
        f"multinode: rank {waiting} has waited 1 min at train.py:31 (barrier); "
        f"rank {1 - waiting} is at prepare.py:17 (sleep)\n"
    )
    for _ in range(30):
        look(both[1], second, clock)
        look(both[0], first, clock)
        clock.now += BEAT
    assert re.findall("waited . min", capsys.readouterr().err) == ["waited 5 min"]


def test_short_waits_are_not_said_and_nobody_reads_the_others(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    store = dist.HashStore()
    both = [watch(rank(store, number)) for number in range(2)]
    for turn in range(60):
        for one in both:
            look(one, SLEEP if turn % 5 == 0 else BARRIER, clock)
        clock.now += BEAT

    assert capsys.readouterr().err == ""
    assert both[0].ranks is not None and [*both[0].ranks.read] == [0]


def test_a_rank_without_a_sign_is_not_said_to_wait(clock: Clock) -> None:
    store = dist.HashStore()
    mine, theirs = rank(store, 0), rank(store, 1)
    theirs.write(Sign(3, "train.py:31", "barrier", 90))
    for beat in range(int(SILENT / BEAT) + 1):
        mine.write(Sign(beat, "train.py:31", "barrier", 60 + beat))
        mine.look()
        clock.now += BEAT

    assert mine.describe([1]) == "rank 1 has given no sign for 25 s, and was at train.py:31 (barrier)"


@pytest.mark.parametrize(
    ("lives", "said"), [(True, "is at prepare.py:17 (sleep)"), (False, "has given no sign for 6 s")]
)
def test_a_rank_that_ends_asks_whether_the_others_live(
    lives: bool, said: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = dist.HashStore()
    ranks, other = rank(store, 1), rank(store, 0)
    other.write(Sign(3, "prepare.py:17", "sleep", 0.0))
    watched = watch(ranks)
    watched.pid = os.getpid()
    monkeypatch.setattr(waits, "WATCHING", [watched])

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if lives and clock.now > 1003:
            other.write(Sign(4, "prepare.py:17", "sleep", 0.0))

    monkeypatch.setattr(clock, "sleep", sleep)
    assert describe_others().startswith(f"rank 0 {said}")
    watched.pid += 1
    assert describe_others() == "", "a process that was forked from a rank"


JOB = Job(1, 2, "pod0", 29500, "0")


@pytest.mark.parametrize(
    ("job", "is_met"), [(JOB, True), (None, True), (JOB, False)], ids=["of an agent", "of rank 0", "not found yet"]
)
def test_an_ended_rank_says_so_where_the_store_outlives_it(
    job: Job | None, is_met: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = dist.HashStore()
    monkeypatch.setattr(waits, "read_job", lambda _: job)
    watched = Watch({"RANK": "1", WORD: str(tmp_path)}, 0)
    watched.ranks = rank(store, 1) if is_met else None
    watched.stop()
    reader = rank(store, 0)
    reader.look()
    for number in (watched.answer, watched.ask, watched.asked):
        os.close(number)

    assert [sign.doing for sign in reader.read.values()] == [ENDED] * (job is not None and is_met)
    assert (tmp_path / f"{IDLE}1").read_text() == ENDED


def test_who_has_ended_and_this_rank_itself_are_not_called_silent(clock: Clock) -> None:
    one = rank(dist.HashStore(), 0)
    for number, doing in enumerate(("sleep", ENDED, "sleep")):
        one.take(number, Sign(1, "train.py:3", doing, 0.0))

    assert [one.is_silent(number, clock.now + 1) for number in range(3)] == [False, False, True]


def test_ranks_without_an_agent_meet_at_the_store_of_their_group(run_ranks: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])

    def act() -> list[Job | None]:
        found = [waits.find_job({}), waits.find_job({"TORCHELASTIC_RESTART_COUNT": "3"})]
        dist.destroy_process_group()
        return [*found, waits.find_job({})]

    for number, done in enumerate(run_ranks(act, method=f"tcp://127.0.0.1:{port}")[0]):
        assert done.result == [*(Job(number, 2, "127.0.0.1", port, attempt) for attempt in ("0", "3")), None]
