"""Who waits for whom: what a rank counts as a wait, and what rank 0 prints; the clock is made up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from multinode_image.hooks.groups import waits
from multinode_image.hooks.groups.waits import (
    DONE,
    ENDED,
    Ranks,
    Sign,
    Wait,
    Watch,
    stop,
)
from multinode_image.hooks.job.place import Job
from multinode_image.hooks.job.spot import Spot
from multinode_image.hooks.job.word import IDLE, WORD
from multinode_image.settings import TRAINING
from tests.support.clocks import Clock

BARRIER, PASS, SLEEP = (
    Spot("train.py:31", "barrier", True),
    Spot("train.py:40", "backward", True),
    Spot("prepare.py:17", "sleep", False),
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    started = Clock(now=1000.0)
    monkeypatch.setattr(waits, "time", started)
    return started


def watch(ranks: Ranks | None) -> Watch:
    """Return what watches a rank, without its thread."""
    bare = Watch.__new__(Watch)
    bare.ranks, bare.gone, bare.wait, bare.beat, bare.waits, bare.said = ranks, False, Wait(), 0, 0, 0.0
    return bare


@pytest.mark.parametrize(
    ("notes", "seconds"),
    [
        pytest.param([(BARRIER, (7, 3), 0.0), (BARRIER, (7, 3), 0.1)], 60, id="one collective"),
        pytest.param([(BARRIER, (7, 3), 0.0), (BARRIER, (8, 3), 0.1)], 0, id="the next one"),
        pytest.param([(BARRIER, (0, 3), 0.0), (BARRIER, (0, 4), 0.1)], 0, id="a backend that does not count, a step"),
        pytest.param([(PASS, (7, 3), 0.0), (PASS, (7, 3), 0.1)], 60, id="a backward pass that waits"),
        pytest.param([(PASS, (7, 3), 99.0), (PASS, (7, 3), 99.1)], 60, id="a backward pass that waits, later"),
        pytest.param([(PASS, (7, 3), 0.0), (PASS, (7, 3), 9.0)], 0, id="a backward pass that computes"),
        pytest.param([(BARRIER, (7, 3), 0.0), (BARRIER, (7, 3), 9.0)], 60, id="a backend that spins"),
        pytest.param([(SLEEP, (7, 3), 0.0), (SLEEP, (7, 3), 0.1)], 0, id="work of its own"),
        pytest.param([(BARRIER, (7, 3), 0.0), (PASS, (7, 3), 0.1)], 0, id="another place"),
    ],
)
def test_a_rank_waits_while_nothing_changes(notes: list[tuple[Spot, tuple[int, int], float]], seconds: float) -> None:
    wait = Wait()
    for turn, (spot, progress, used) in enumerate(notes):
        wait.note(spot, progress, 100 + 60.0 * turn, used)

    assert wait.seconds == seconds


@pytest.mark.parametrize(
    ("signs", "said"),
    [
        pytest.param(
            {0: Sign(9, "train.py:31", "barrier", 130), 1: Sign(9, "train.py:31", "barrier", 125)},
            "ranks 0, 1 have waited 2 min at train.py:31 (barrier)",
            id="all wait",
        ),
        pytest.param(
            {0: Sign(9, "a.py:1", "barrier", 60), 1: Sign(9, "a.py:2", "all_reduce", 119)},
            "rank 0 has waited 1 min at a.py:1 (barrier); rank 1 has waited 1 min at a.py:2 (all_reduce)",
            id="in two collectives",
        ),
        pytest.param(
            {0: Sign(9, "a.py:4", "", 0), 1: Sign(9, "a.py:1", "barrier", 60)},
            "rank 1 has waited 1 min at a.py:1 (barrier); rank 0 is at a.py:4",
            id="who waits comes first",
        ),
        pytest.param(
            {0: Sign(9, "a.py:1", "barrier", 60), 1: Sign(9, "", ENDED, 0)},
            "rank 0 has waited 1 min at a.py:1 (barrier); rank 1 has ended",
            id="one has ended",
        ),
        pytest.param(
            {0: Sign(9, "a.py:1", "barrier", 60)},
            "rank 0 has waited 1 min at a.py:1 (barrier); rank 1 has not said where it is",
            id="one has said nothing",
        ),
        pytest.param(
            {0: Sign(9, "a.py:1", "barrier", 60), **{n: Sign(9, "{0}.py:1", "", 0) for n in range(1, 7)}},
            "rank 0 has waited 1 min at a.py:1 (barrier); ranks 1, 2, 3, 4 and 2 more are at {0}.py:1",
            id="many",
        ),
    ],
)
def test_a_line_says_where_all_are(signs: dict[int, Sign], said: str, clock: Clock) -> None:
    ranks = Ranks(None, "", 0, max(2, len(signs)))
    for number, sign in signs.items():
        ranks.take(number, sign)

    assert ranks.describe(range(ranks.size)) == said


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    kept = Watch({"RANK": "3"}, 0)
    monkeypatch.setattr(waits, "WATCHING", [kept])
    yield kept
    stop()
    assert not kept.thread.is_alive()
    for number in (kept.answer, kept.ask, kept.asked):
        os.close(number)


def test_the_thread_answers_who_asks_for_stacks(watched: Watch) -> None:
    os.write(watched.ask, b"?")
    until, text = time.monotonic() + 10, b""
    while time.monotonic() < until and not text.endswith(DONE):
        text = os.pread(watched.answer, 1 << 20, 0)

    assert text.startswith(b"rank 3 is at ") and b"test_the_thread_answers_who_asks_for_stacks" in text
    name = str(Path(f"/proc/self/fd/{watched.answer}").readlink())
    assert name.startswith(f"/memfd:multinode-stacks-{os.getpid()}-{watched.ask}")


def test_who_was_forked_ends_no_thread_of_its_parent(watched: Watch) -> None:
    watched.pid += 1
    stop()
    watched.pid -= 1

    assert watched.thread.is_alive()


AGENT = Job(1, 4, "pod1", 29500, "2")


@pytest.mark.parametrize(("job", "asks"), [(AGENT, True), (None, False), (AGENT._replace(size=1), False)])
def test_ranks_are_asked_by_the_store_of_their_job(
    job: Job | None, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "find_job", lambda _: job)
    monkeypatch.setattr(waits, "connect", lambda *where: where)

    ranks = waits.find_ranks({})

    assert (ranks and (ranks.store, ranks.rank, ranks.size)) == ((("pod1", 29500), 1, 4) if asks else None)


def test_a_word_is_left_for_what_has_started_the_rank(tmp_path: Path) -> None:
    environ, place = {WORD: str(tmp_path), "RANK": "3"}, tmp_path / f"{IDLE}3"

    waits.leave_word(environ, "at train.py:3")
    assert place.read_text() == "at train.py:3"
    waits.leave_word(environ, "")
    waits.leave_word(environ, "")  # it is gone already
    assert not place.exists()
    waits.leave_word({"RANK": "3"}, "at train.py:3")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("environ", "known", "fails", "watches"),
    [
        ({"RANK": "0", TRAINING: "here"}, [], None, 1), ({"RANK": "0", TRAINING: "7"}, [], None, 0),
        ({TRAINING: "here"}, [], None, 0), ({"RANK": "0", TRAINING: "here"}, ["one"], None, 1),
        ({"RANK": "0", TRAINING: "here"}, [], OSError, 0), ({"RANK": "0", TRAINING: "here"}, [], RuntimeError, 0),
    ],
)  # fmt: skip
def test_a_rank_is_watched_once_where_that_can_be(
    environ: dict[str, str], known: list[Any], fails: type[Exception] | None, watches: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def make(*_: object) -> str:
        if fails:
            raise fails
        return "made"

    for name in ("RANK", TRAINING):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.replace("here", str(os.getpid())))
    monkeypatch.setattr(waits, "WATCHING", known)
    monkeypatch.setattr(waits, "Watch", make)

    waits.watch_waits(None)

    assert len(known) == watches


@pytest.mark.parametrize(
    ("seconds", "idle", "words"),
    [([0.0, waits.IDLE_AFTER, 99.0, 0.0], [False, True, True, False], ["at a (b)", ""]), ([0.0], [False], [])],
)
def test_a_look_leaves_a_word_when_a_rank_waits_and_when_it_goes_on(
    seconds: list[float], idle: list[bool], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left, compared = list[str](), list[object]()
    watched = watch(None)
    watched.environ, watched.main, watched.gone, watched.idle, watched.beat = {}, 0, False, False, 0
    noted = list[Any]()
    waited: Any = SimpleNamespace(note=lambda *given: noted.append(given), seconds=0.0)
    watched.wait = waited
    monkeypatch.setattr(waits, "count_exchanges", lambda _: 7)
    monkeypatch.setattr(waits, "locate", lambda _: SimpleNamespace(text="a (b)"))
    monkeypatch.setattr(waits, "leave_word", lambda _, text: left.append(text))
    monkeypatch.setattr(waits, "find_ranks", mock.Mock(side_effect=["ranks"]))
    monkeypatch.setattr(Watch, "has_store", lambda self: len(compared) < 2)
    monkeypatch.setattr(Watch, "compare", lambda self, ranks: compared.append(ranks))

    for moment, expected in zip(seconds, idle, strict=True):
        waited.seconds = moment
        watched.look()
        assert watched.idle is expected
    assert left == words and compared == ["ranks"] * min(2, len(seconds)) and watched.beat == len(seconds)
    assert [(spot.text, progress) for spot, progress, *_ in noted] == [("a (b)", (7, 0))] * len(seconds)


def test_a_store_that_has_gone_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()
    watched = watch(None)
    watched.environ, watched.main, watched.gone, watched.idle, watched.beat = {}, 0, False, False, 0
    waited: Any = SimpleNamespace(note=lambda *_: None, seconds=0.0)
    watched.wait = waited

    def find(_: object) -> None:
        asked.append(1)
        raise RuntimeError

    monkeypatch.setattr(waits, "find_ranks", find)
    for _ in range(3):
        watched.look()
    assert asked == [1] and watched.gone


@pytest.mark.parametrize(("count", "named"), [(4, "ranks 0, 1, 2, 3 are"), (6, "ranks 0, 1, 2, 3 and 2 more are")])
def test_a_line_names_a_few_ranks(count: int, named: str) -> None:
    assert waits.join(range(count), "is at train.py:3") == f"{named} at train.py:3"
