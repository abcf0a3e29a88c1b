"""Ranks that meet without a network."""

from __future__ import annotations

import os
import socket

import pytest

from multinode_image.results import agree


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a name of this process in the place of each port: like one, it is taken while somebody listens."""

    def name(address: tuple[str, int]) -> str:
        return f"\0multinode-{os.getpid()}-{address[1]}"  # unix(7): abstract, so that it goes with its socket

    def listen(address: tuple[str, int], **_: object) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.bind(name(address))
        except OSError:
            server.close()
            raise
        server.listen(1024)
        return server

    def call(address: tuple[str, int], timeout: float) -> socket.socket:
        caller = socket.socket(socket.AF_UNIX)
        caller.settimeout(timeout)
        try:
            caller.connect(name(address))
        except OSError:
            caller.close()
            raise
        return caller

    monkeypatch.setattr(socket, "create_server", listen)
    monkeypatch.setattr(socket, "create_connection", call)
    monkeypatch.setattr(agree, "PAUSE", 0.02)
