"""Which connections of a rank get a limit; every socket is made up."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from entrypoint.faults import peers
from entrypoint.faults.peers import limit_all, list_options, list_sockets, start, stop, watch
from entrypoint.tuning import variables

INET, INET6 = socket.AF_INET, socket.AF_INET6
TCP, LAST = socket.IPPROTO_TCP, (socket.SOL_SOCKET, socket.SO_KEEPALIVE)


class Library:
    """The C library: one socket with this other side, and what was set on it."""

    def __init__(self, family: int, peer: str, *, is_tcp: bool) -> None:
        start = struct.pack("=HH", family, 0) + bytes(4 if family == INET6 else 0)
        self.address = start + (socket.inet_pton(family, peer) if family in (INET, INET6) else peer.encode())
        self.is_tcp, self.set = is_tcp, dict[tuple[int, int], int]()

    def getpeername(self, number: int, place: ctypes.Array[ctypes.c_char], length: object) -> int:
        place.raw = self.address.ljust(len(place), b"\0")
        return 0 if number == 5 else -1

    def setsockopt(self, number: int, level: int, option: int, value: object, size: int) -> int:
        if level == TCP and not self.is_tcp:
            return -1
        self.set[level, option] = value._obj.value  # type: ignore[attr-defined]
        return 0


@pytest.mark.parametrize(
    ("family", "peer", "is_tcp", "limited"),
    [
        pytest.param(INET, "10.0.0.2", True, True, id="another node"),
        pytest.param(INET6, "::ffff:10.0.0.2", True, True, id="another node by a socket of IPv6"),
        pytest.param(INET6, "fd00::2", True, True, id="another node by IPv6"),
        pytest.param(INET, "127.0.0.1", True, False, id="this node"),
        pytest.param(INET6, "::1", True, False, id="this node by IPv6"),
        pytest.param(INET6, "::ffff:127.0.0.1", True, False, id="this node by a socket of IPv6"),
        pytest.param(INET, "10.0.0.2", False, False, id="no connection"),
        pytest.param(socket.AF_UNIX, "/run/socket", False, False, id="a program of this node"),
    ],
)
def test_only_connections_to_other_nodes_are_limited(family: int, peer: str, is_tcp: bool, limited: bool) -> None:
    library = Library(family, peer, is_tcp=is_tcp)

    assert limit_all([4, 5], 300, library) == limited  # type: ignore[arg-type]

    assert bool(library.set) == limited


@pytest.mark.parametrize(("seconds", "idle", "between"), [(300, 60, 30), (1, 1, 1), (1 << 20, 32767, 32767)])
def test_a_silent_node_is_asked_several_times_before_the_end(seconds: int, idle: int, between: int) -> None:
    assert list_options(seconds) == [
        (TCP, socket.TCP_USER_TIMEOUT, seconds * 1000),
        (TCP, socket.TCP_KEEPIDLE, idle),
        (TCP, socket.TCP_KEEPINTVL, between),
        (*LAST, 1),
    ]


def test_the_sockets_among_open_files_are_found(tmp_path: Path) -> None:
    for number, target in ((0, "/dev/null"), (5, "socket:[17]"), (7, "pipe:[18]"), (11, "socket:[19]")):
        (tmp_path / str(number)).symlink_to(target)

    assert sorted(list_sockets(str(tmp_path))) == [5, 11]


@pytest.mark.parametrize("value", ["", "0", "x", "-1", "²"])
def test_no_thread_begins_without_a_number(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr("threading.Thread", None)

    start({"MULTINODE_PEER_TIMEOUT": value})


@pytest.mark.parametrize(("value", "seconds"), [("20", 20), ("9" * 5000, 1 << 20)])
def test_a_thread_watches_with_a_number_that_the_kernel_takes(
    monkeypatch: pytest.MonkeyPatch, value: str, seconds: int
) -> None:
    given: list[object] = []
    at_exit: list[object] = []

    def thread(args: tuple[object, int, object], **_: object) -> SimpleNamespace:
        return SimpleNamespace(start=lambda: given.append(args[1]))

    monkeypatch.setattr("threading.Thread", thread)
    monkeypatch.setattr("atexit.register", lambda *call: at_exit.append(call[0]))

    start({"MULTINODE_PEER_TIMEOUT": value})

    assert given == [seconds]
    assert at_exit == [stop]


@pytest.mark.parametrize("imported", [{}, {"torch.distributed.distributed_c10d": None}])
def test_the_thread_has_ended_before_python_does(monkeypatch: pytest.MonkeyPatch, imported: dict[str, object]) -> None:
    monkeypatch.setattr(peers, "PAUSE", 0.001)
    monkeypatch.setattr(peers, "limit_all", lambda *_: 0)
    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(imported, 300, ended), daemon=True)
    thread.start()

    stop(thread, ended)

    assert not thread.is_alive()


def test_a_forked_child_without_the_thread_touches_no_lock_of_it() -> None:
    ended = threading.Event()

    stop(threading.Thread(target=watch), ended)

    assert not ended.is_set()


def test_the_entrypoint_knows_the_same_variable() -> None:
    assert variables.PEER_TIMEOUT == peers.VARIABLE
