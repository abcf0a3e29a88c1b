"""Ranks agree on one offer, over the network of this machine."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

import pytest

from entrypoint.errors import LATER, Refusal
from entrypoint.rendezvous.agree import agree, choose_port
from entrypoint.world.model import MPI, World

# Two tests at once need ports of their own.
PORTS = count(10000 + os.getpid() * 16 % 30000)


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
        others = [pool.submit(agree, rank(number + 1, port), "", each, 20) for number, each in enumerate(answers)]
        assert agree(rank(0, port), offer, take, 20) == agreed
        assert [each.result() for each in others] == [agreed, agreed]


def test_who_comes_again_takes_his_own_place_and_strangers_none(port: int) -> None:
    """Rank 1 was killed while it waited, and a scanner of ports and a rank of another job call too."""
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(agree, rank(0, port), "4 word", take, 20)
        for line in (b"3 1\n", b"GET / HTTP/1.1\r\n", b"2 1\n", b"3 0\n"):
            with call(port) as caller:
                caller.sendall(line)
        others = [pool.submit(agree, rank(number, port), "", take, 20) for number in (2, 1)]
        assert [each.result() for each in (first, *others)] == ["4 word"] * 3


def call(port: int) -> socket.socket:
    """Call rank 0 as soon as it listens."""
    end = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", choose_port(rank(0, port))), 5)
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)


@pytest.mark.parametrize("comes", [0, 1])
def test_nobody_begins_where_one_is_missing(port: int, comes: int) -> None:
    with pytest.raises(Refusal) as error:
        agree(rank(comes, port), "4 word", take, 0.4)
    assert error.value.code == LATER


def test_nobody_begins_where_one_leaves_before_it_has_answered(port: int) -> None:
    world = rank(0, port, 2)
    failed: Future[str] = Future()

    def lead() -> None:
        try:
            failed.set_result(agree(world, "4 word", take, 20))
        except Refusal as error:
            failed.set_exception(error)

    thread = threading.Thread(target=lead)
    thread.start()
    with call(port) as caller:
        caller.sendall(b"2 1\n")
        assert caller.recv(100) == b"4 word\n"
    thread.join(20)
    with pytest.raises(Refusal, match="has left"):
        failed.result(0)
