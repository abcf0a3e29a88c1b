"""A name server that fails as they do: it answers with an error, or not at all, before it knows a name."""

from __future__ import annotations

import socket
import struct
import threading
from enum import Enum

# RFC 1035, 4.1.1: a response; the codes NOERROR and SERVFAIL.
RESPONSE, FAILURE = 0x8180, 2
ADDRESS, INTERNET = 1, 1


class State(Enum):
    """What the server does with a question."""

    FAILS = "answers SERVFAIL"
    SILENT = "does not answer"
    KNOWS = "answers"


class NameServer:
    """Listens on an address until it is closed; every name has the address that it is given."""

    def __init__(self, host: str, state: State) -> None:
        self.host, self.state, self.address = host, state, "0.0.0.0"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                question, client = self._socket.recvfrom(4096)
                answer = make_answer(question, self.state, self.address)
                if answer:
                    self._socket.sendto(answer, client)
            except OSError:  # closed
                return

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


def make_answer(question: bytes, state: State, address: str) -> bytes:
    """Return the answer to a question: an address, no such record for another kind of question, an error, nothing."""
    if state is State.SILENT or len(question) < 17:
        return b""
    number, _, count = struct.unpack_from("!HHH", question)
    end = question.index(b"\0", 12) + 5
    kind, of = struct.unpack_from("!HH", question, end - 4)
    known = state is State.KNOWS and (kind, of) == (ADDRESS, INTERNET)
    flags = RESPONSE | (FAILURE if state is State.FAILS else 0)
    head = struct.pack("!HHHHHH", number, flags, count, int(known), 0, 0)
    record = struct.pack("!HHHIH", 0xC00C, ADDRESS, INTERNET, 1, 4) + socket.inet_aton(address) if known else b""
    return head + question[12:end] + record
