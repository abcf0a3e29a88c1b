"""Ranks agree on one offer, each in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

import pytest

from multinode_image.errors import EXIT_USER, LATER, Refusal
from multinode_image.results import agree as agreement
from multinode_image.results.agree import (
    LONGEST,
    Ranks,
    admit,
    agree,
    choose_meeting_port,
    introduce,
    receive,
    tell_refused,
)
from multinode_image.world.model import MPI, World

pytestmark = pytest.mark.usefixtures("meeting")
PORTS = count(10000)  # another for each test: a rank may still call when its own has ended


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody rest for long between two tries."""
    monkeypatch.setattr(agreement, "PAUSE", 0.01)


@pytest.fixture
def port() -> int:
    return next(PORTS)


def rank(number: int, port: int, size: int = 3) -> World:
    return World(MPI, "", nodes=(size, size), rank=number, size=size, master="127.0.0.1", port=port)


def take(_: str) -> bool:
    return True


def refuse(_: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("offer", "answers", "agreed"),
    [
        ("4 word", (take, take), "4 word"),
        ("4 word", (take, refuse), ""),
        ("4 word", (refuse, refuse), ""),
        ("", (take, take), ""),
    ],
)
def test_all_ranks_do_the_same(port: int, offer: str, answers: tuple[Callable[[str], bool], ...], agreed: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        others = [
            pool.submit(agree, rank(number + 1, port), "job", "", each, 20) for number, each in enumerate(answers)
        ]
        assert agree(rank(0, port), "job", offer, take, 20) == agreed
        assert [each.result() for each in others] == [agreed, agreed]


@pytest.mark.parametrize(("number", "counts"), [(1, True), (2, True), (0, False), (3, False)])
def test_only_a_rank_of_the_job_is_let_in(port: int, number: int, counts: bool) -> None:
    ranks: Ranks = {}
    caller, other = socket.socketpair()
    with caller, other:
        admit(caller, introduce(rank(number, port), "job"), rank(0, port), "job", ranks)
    assert (number in ranks) is counts


def test_who_comes_again_takes_his_own_place_and_strangers_none(port: int) -> None:
    """Rank 1 was killed while it waited, and a scanner of ports calls too."""
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(agree, rank(0, port), "job", "4 word", take, 20)
        own, smaller, same = (
            introduce(rank(1, port), "job"),
            introduce(rank(1, port, 2), "job"),
            introduce(rank(0, port), "job"),
        )
        for line in (own, "GET / HTTP/1.1\r", smaller, same):
            with call(port) as caller:
                caller.sendall(f"{line}\n".encode())
        others = [pool.submit(agree, rank(number, port), "job", "", take, 20) for number in (2, 1)]
        assert [each.result() for each in (first, *others)] == ["4 word"] * 3


def test_callers_who_say_nothing_keep_nobody_waiting(port: int) -> None:
    """Each would have had five seconds for itself."""
    began, leader = time.monotonic(), rank(0, port, 2)
    with ThreadPoolExecutor(2) as pool, contextlib.ExitStack() as open_calls:
        first = pool.submit(agree, leader, "job", "4 word", take, 20)
        for number in range(300):
            caller = open_calls.enter_context(call(port))
            if number % 2:
                caller.sendall(b"half a line")
        assert agree(rank(1, port, 2), "job", "", take, 20) == first.result() == "4 word"
    assert time.monotonic() - began < 15


def test_a_caller_whose_line_does_not_end_is_sent_away(port: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(agree, rank(0, port, 2), "job", "4 word", take, 20)
        with call(port) as caller, pytest.raises(ConnectionError):
            caller.sendall(b"x" * 64 * LONGEST)
        assert agree(rank(1, port, 2), "job", "", take, 20) == first.result() == "4 word"


def test_a_line_may_come_in_parts(port: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(agree, rank(0, port, 2), "job", "4 word", take, 20)
        with call(port) as caller:
            for part in (introduce(rank(1, port, 2), "job"), "\n"):
                caller.sendall(part.encode())
            assert caller.recv(100) == b"4 word\n"
            caller.sendall(b"yes\n")
            assert caller.recv(100) == b"yes\n"
        assert first.result() == "4 word"


def test_two_jobs_on_one_port_do_not_mix(port: int) -> None:
    """Each has its rank 0 on this node, where one of them gets the port first."""
    with ThreadPoolExecutor(6) as pool:
        found = [
            pool.submit(agree, rank(number, port), job, f"4 of {job}", take, 20)
            for number in (2, 1, 0)
            for job in ("one", "other")
        ]
        assert [each.result() for each in found] == ["4 of one", "4 of other"] * 3


def test_all_end_where_rank_0_is_refused(port: int) -> None:
    began, refusal = time.monotonic(), Refusal("the directory holds another run", "/a", "another")
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(agree, rank(each, port), "job", "4 word", take) for each in (1, 2)]
        tell_refused(rank(0, port), "job", refusal.note, refusal.code)
        for each in others:
            with pytest.raises(Refusal, match="rank 0: the directory holds another run: /a") as error:
                each.result()
            assert error.value.code == EXIT_USER
    assert time.monotonic() - began < 20


def test_who_is_refused_does_not_wait_for_one_that_does_not_come(port: int) -> None:
    tell_refused(rank(0, port), "job", "full", 1, 0.05)


def call(port: int) -> socket.socket:
    """Call rank 0 as soon as it listens."""
    end = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", choose_meeting_port(rank(0, port))), 5)
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)


@pytest.mark.parametrize("comes", [0, 1])
def test_nobody_begins_where_one_is_missing(port: int, comes: int) -> None:
    with pytest.raises(Refusal) as error:
        agree(rank(comes, port), "job", "4 word", take, 0.05)
    assert error.value.code == LATER


def test_nobody_begins_where_one_leaves_before_it_has_answered(port: int) -> None:
    world = rank(0, port, 2)
    failed: Future[str] = Future()

    def lead() -> None:
        try:
            failed.set_result(agree(world, "job", "4 word", take, 20))
        except Refusal as error:
            failed.set_exception(error)

    thread = threading.Thread(target=lead)
    thread.start()
    with call(port) as caller:
        caller.sendall(f"{introduce(rank(1, port, 2), 'job')}\n".encode())
        assert caller.recv(100) == b"4 word\n"
    thread.join(20)
    with pytest.raises(Refusal, match="has left"):
        failed.result(0)


def test_a_port_that_another_program_keeps_is_named(port: int) -> None:
    leader = rank(0, port, 2)
    with socket.create_server(("", choose_meeting_port(leader))), pytest.raises(Refusal) as caught:
        agree(leader, "", "", take, 0.05)
    assert (caught.value.code, caught.value.value) == (LATER, str(choose_meeting_port(leader)))


def test_who_calls_again_leaves_no_call_open(port: int) -> None:
    pairs, ranks = [socket.socketpair() for _ in range(2)], Ranks()
    for _, near in pairs:
        admit(near, introduce(rank(1, port), "job"), rank(0, port), "job", ranks)

    assert pairs[0][1].fileno() == -1 and ranks == {1: pairs[1][1]}
    for each in [*pairs[0], *pairs[1]]:
        each.close()


def test_a_line_without_end_is_not_read() -> None:
    far, near = socket.socketpair()
    with far, near:
        writer = threading.Thread(target=write_long, args=(far,), daemon=True)
        writer.start()
        with pytest.raises(ConnectionError, match="closed"):
            receive(near, time.monotonic() + 5)
        near.close()
        writer.join(20)


def write_long(to: socket.socket) -> None:
    """Send a line that is longer than any of ours, until nobody reads."""
    with contextlib.suppress(OSError):
        to.sendall(b"x" * 8 * LONGEST)
