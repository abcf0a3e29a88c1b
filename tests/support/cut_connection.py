"""Connections to a server that count the bytes sent over them, and are cut where a test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 1 << 16


class Connection:
    """`host` leads to the server, `sent` is the number of bytes that went there.

    Where `sent` reaches `limit`, `reached` is set and every connection breaks, or with `stall` stands still.
    """

    def __init__(self, to: str) -> None:
        name, _, port = to.partition(":")
        self._to = (name, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent, self.limit, self.stall = 0, 0, False
        self.reached = threading.Event()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:  # closed
                return
            server = socket.create_connection(self._to)
            self._open += [client, server]
            for source, target, counts in ((client, server, True), (server, client, False)):
                thread = threading.Thread(target=self._pump, args=(source, target, counts))
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                self.sent += len(data) if counts else 0
                if self.limit and self.sent >= self.limit:
                    self.reached.set()
                    if self.stall:
                        continue
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End every connection, and wait for the threads."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(timeout=30)  # nothing is opened after it
        self._listener.close()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=30)
        for end in self._open:
            end.close()


@contextmanager
def connection_to(to: str) -> Iterator[Connection]:
    """Connect to a server, given as host:port, through a listener of its own."""
    connection = Connection(to)
    try:
        yield connection
    finally:
        connection.close()
