"""What the thread that watches connections does to the sockets of a training: nothing but what they are told."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator

import pytest

from entrypoint.faults import peers


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """Connect two sockets of this machine, which count as those of two nodes."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as made,
        server.accept()[0],
    ):
        yield made


def test_a_connection_gets_its_limits_and_stays_as_it_was(
    connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    monkeypatch.setattr(peers, "LOCAL", ())
    monkeypatch.setattr(os, "close", closed.append)
    socket.setdefaulttimeout(60)  # a script may say so; sockets that Python makes do not block then
    try:
        count = peers.limit_all([connection.fileno(), 10_000], 300, ctypes.CDLL(None))
    finally:
        socket.setdefaulttimeout(None)

    assert count == 1
    assert os.get_blocking(connection.fileno())
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 300_000
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert closed == []
