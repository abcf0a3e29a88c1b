"""Samples of other ranks by the store of the job: no collective, and no wait for whoever trains.

A thread of its own has connections of its own. A store may be asked while the process that serves it is stopped, which
blocks for as long as that is (`check` of TCPStore knows no time-out); and a connection of the script's own group would
keep the group's server alive after its end. A store that has gone is asked once: it prints a backtrace, then raises.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

SECONDS = timedelta(seconds=20)  # in which a store answers a connection
SHORTEST, LONGEST = 0.01, 0.5  # seconds between two looks
ABSENT = "multinode has found nothing here"
MOST = 256  # messages that are waited for; the oldest is given up first
CONNECTED: dict[tuple[str, int, int], Any] = {}


class Ring(NamedTuple):
    """Ranks that compare: where their store is, how its keys begin, and the place of this one among how many.

    Each looks at the next one, and the first at all, so that it can speak of all.
    """

    host: str
    port: int
    prefix: str
    rank: int
    size: int

    @property
    def others(self) -> tuple[int, ...]:
        """Return the ranks that this one looks at."""
        return tuple(range(1, self.size)) if self.rank == 0 else ((self.rank + 1) % self.size,)


class Message(NamedTuple):
    """What a rank says under a key, and who gets what all the others say there; nobody where deliver is None."""

    ring: Ring
    key: str
    text: bytes
    deliver: Callable[[list[bytes]], None] | None

    def name(self, rank: int) -> str:
        """Return the key of a rank in the store."""
        return f"{self.ring.prefix}/{self.key}/{rank}"


def connect(host: str, port: int) -> Any:
    """Return the connection of this process to a store of torch, one for all threads: a store has a file for each."""
    from torch.distributed import TCPStore

    where = (host, port, os.getpid())
    if where not in CONNECTED:
        CONNECTED[where] = TCPStore(host, port, None, False, SECONDS, wait_for_workers=False)
    return CONNECTED[where]


def are_there(store: Any, names: list[str]) -> bool:
    """Return whether a store has all of these keys, without a wait.

    Torch before 2.3 has no `check` for Python, and a `wait` that ends by its time leaves the connection out of step;
    compare_set returns what it is told to expect of a key that is not there.
    """
    if hasattr(store, "check"):
        return bool(store.check(names))
    return all(bytes(store.compare_set(name, ABSENT, ABSENT)) != ABSENT.encode() for name in names)


class Messenger:
    """Sends messages and looks for those of others, in a thread that ends with the process."""

    def __init__(self, connect: Callable[[str, int], Any] = connect) -> None:
        """Start the thread."""
        self.connect = connect
        self.stores: dict[tuple[str, int], Any] = {}  # None for one that has gone
        self.inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.sent = self.received = 0
        self.open: list[Message] = []
        self.thread = threading.Thread(target=self.run, name="multinode.messenger", daemon=True)
        self.thread.start()

    def send(self, message: Message) -> None:
        """Say something, and look for what the others say."""
        self.sent += 1
        self.inbox.put(message)

    @property
    def idle(self) -> bool:
        """Return whether all has been sent, and all answers have come or are given up."""
        return self.received == self.sent and not self.open

    def wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Return whether something has become true in so many seconds, while the thread looks on."""
        end = time.monotonic() + seconds
        while not (done := is_done()) and time.monotonic() < end and self.thread.is_alive() and not self.idle:
            time.sleep(SHORTEST)
        return done

    def stop(self, seconds: float = 1.0) -> None:
        """End the thread, unless a store holds it: one that is in torch while Python ends would abort the process."""
        self.inbox.put(None)
        self.thread.join(seconds)

    def run(self) -> None:
        """Send and look until told to stop."""
        pause = SHORTEST
        while True:
            try:
                message = self.inbox.get(timeout=pause if self.open else None)
            except queue.Empty:
                pause = SHORTEST if self.look() else min(2 * pause, LONGEST)
                continue
            if message is None:
                return
            self.post(message)
            pause = SHORTEST

    def post(self, message: Message) -> None:
        """Write a message to its store."""
        if self.ask(message, lambda store: store.set(message.name(message.ring.rank), message.text) or True):
            self.open = [*self.open, message][-MOST:] if message.deliver else self.open
        self.received += 1

    def look(self) -> bool:
        """Deliver what has come; return whether there was any."""
        come = [message for message in self.open if self.fetch(message)]
        gone = [message for message in self.open if self.stores.get(message.ring[:2], 0) is None]
        self.open = [message for message in self.open if message not in come and message not in gone]
        return bool(come)

    def fetch(self, message: Message) -> bool:
        """Deliver what the others have said under a key, if all have."""
        names = [message.name(rank) for rank in message.ring.others]
        if not self.ask(message, lambda store: are_there(store, names)):
            return False
        texts = self.ask(message, lambda store: [bytes(store.get(name)) for name in names])
        if texts and message.deliver:
            with contextlib.suppress(Exception):  # of what another release has written
                message.deliver(texts)
        return bool(texts)

    def ask(self, message: Message, question: Callable[[Any], Any]) -> Any:
        """Return a store's answer; None from one that has gone."""
        where = message.ring[:2]
        try:
            if where not in self.stores:
                self.stores[where] = self.connect(*where)
            return None if self.stores[where] is None else question(self.stores[where])
        except Exception:
            self.stores[where] = None
            return None
