"""Which connections of a rank get a limit; every socket is made up."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from entrypoint.faults.peers import limit, list_sockets, start

TCP, INET, INET6 = socket.SOCK_STREAM, socket.AF_INET, socket.AF_INET6


class Connection:
    """A socket, and what was set on it."""

    def __init__(self, family: int, kind: int, peer: str) -> None:
        self.family, self.type, self.peer, self.set = family, kind, peer, dict[tuple[int, int], int]()

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 29500

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self.set[level, name] = value


@pytest.mark.parametrize(
    ("family", "kind", "peer", "limited"),
    [
        pytest.param(INET, TCP, "10.0.0.2", True, id="another node"),
        pytest.param(INET6, TCP, "::ffff:10.0.0.2", True, id="another node by a socket of IPv6"),
        pytest.param(INET6, TCP, "fd00::2", True, id="another node by IPv6"),
        pytest.param(INET, TCP, "127.0.0.1", False, id="this node"),
        pytest.param(INET6, TCP, "::ffff:127.0.0.1", False, id="this node by a socket of IPv6"),
        pytest.param(INET, socket.SOCK_DGRAM, "10.0.0.2", False, id="no connection"),
        pytest.param(socket.AF_UNIX, TCP, "/run/socket", False, id="a program of this node"),
    ],
)
def test_only_connections_to_other_nodes_are_limited(family: int, kind: int, peer: str, limited: bool) -> None:
    connection = Connection(family, kind, peer)

    assert limit(connection, 300) == limited  # type: ignore[arg-type]

    assert bool(connection.set) == limited


def test_a_silent_node_is_asked_several_times_before_the_end() -> None:
    connection = Connection(INET, TCP, "10.0.0.2")

    limit(connection, 300)  # type: ignore[arg-type]

    assert connection.set == {
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): 300_000,
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 60,
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 30,
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    }


def test_the_sockets_among_open_files_are_found(tmp_path: Path) -> None:
    for number, target in ((0, "/dev/null"), (5, "socket:[17]"), (7, "pipe:[18]"), (11, "socket:[19]")):
        (tmp_path / str(number)).symlink_to(target)

    assert sorted(list_sockets(str(tmp_path))) == [5, 11]


@pytest.mark.parametrize("value", ["", "0", "x", "-1", "²", "9" * 30])
def test_no_thread_begins_without_a_number(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr("threading.Thread", None)

    start({"MULTINODE_PEER_TIMEOUT": value})
