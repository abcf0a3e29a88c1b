"""What the agents of a job write into its store of how their nodes end, and read there of the others."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "multinode/end"
GOOD, FAILED, RESTARTS, READ, DONE, ENDED = "good", "failed", "restarts", "read", "done", "ended"
BEAT = 1.0  # seconds between two looks into the store
SILENT = 20.0  # seconds without a sign of a node's thread: the node or its network is gone
PAUSE = 2.0  # seconds until a store that has not answered is asked again


class Unreachable(Exception):
    """The store does not answer now."""


class Board:
    """What the nodes of one start of their ranks have written of their ends, as this node reads it.

    good and failed: how the nodes ended, by their numbers; over: whether a node starts its ranks again, so that all do;
    heard: when the store has answered last: a network may be away for a while.
    """

    def __init__(self, store: Any, number: int, count: int, attempt: int) -> None:
        """Take the store of an agent, its number of how many nodes, and which start of the ranks it is."""
        self.store, self.number, self.count = open_again(store), number, count
        self.place = place_of(attempt)
        self.good: set[int] = set()
        self.failed: dict[int, dict[str, Any]] = {}
        self.signs = dict.fromkeys(range(count), (0, 0.0))  # node -> what it has counted, and when that was new
        self.over = self.failing = False  # failing: the last question to the store had no answer
        self.retry = 0.0  # when the store is asked again
        self.heard = time.monotonic()
        self.vain = 0.0  # since when a rank of this node waits for those of a node that has ended
        self.unsaid: list[str] = []
        self.closed = False
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        with contextlib.suppress(RuntimeError):  # of a limit, of which torchrun has more to say
            self.thread.start()

    @property
    def gone(self) -> bool:
        """Return whether the store has not answered for so long that it is taken for gone.

        One question may take minutes of torch's own tries to connect: the time counts, not the number of questions.
        """
        return time.monotonic() - self.heard > SILENT

    def ask(self, act: Callable[[Any], Any]) -> Any:
        """Return what the store answers; raise Unreachable, also where another thread waits for its answer."""
        if not self.lock.acquire(timeout=PAUSE):
            raise Unreachable
        try:
            return self.ask_alone(act)
        finally:
            self.lock.release()

    def ask_alone(self, act: Callable[[Any], Any]) -> Any:
        """Do so; after an error, the store is asked again later.

        Each kind of store has errors of its own, and torch prints many lines for one.
        """
        if time.monotonic() < self.retry:
            raise Unreachable
        try:
            if self.failing:
                self.store = open_again(self.store)
            answer = act(self.store)
        except Exception:
            self.failing, self.retry = True, time.monotonic() + PAUSE
            raise Unreachable from None
        self.failing, self.heard = False, time.monotonic()
        return answer

    def count_up(self, name: str, by: int = 1) -> int:
        """Add to a number in the store and return it."""
        return int(self.ask(lambda store: store.add(f"{self.place}/{name}", by)))

    def say(self, name: str) -> None:
        """Add to a number in the store, now or as soon as it answers."""
        try:
            self.count_up(name)
        except Unreachable:
            self.unsaid.append(name)

    def fail(self, record: dict[str, Any]) -> None:
        """Write how this node failed."""
        self.failed[self.number] = record
        record["order"] = 0
        with contextlib.suppress(Unreachable):
            record["order"] = self.count_up(FAILED)
            text = json.dumps(record)
            self.ask(lambda store: store.set(f"{self.place}/{FAILED}/{self.number}/text", text))
            self.count_up(f"{FAILED}/{self.number}")

    def watch(self) -> None:
        """Read what the others write, until this is closed."""
        while not self.closed:
            with contextlib.suppress(Unreachable):
                self.look()
            time.sleep(BEAT)

    def look(self) -> None:
        """Read once, and give a sign."""
        self.count_up(f"sign/{self.number}")
        while self.unsaid:
            self.count_up(self.unsaid[0])
            self.unsaid.pop(0)
        self.over = self.over or self.count_up(RESTARTS, 0) > 0
        for node in set(range(self.count)) - {self.number} - self.good - set(self.failed):
            sign = self.count_up(f"sign/{node}", 0)
            if sign != self.signs[node][0]:
                self.signs[node] = sign, time.monotonic()
            if self.count_up(f"{GOOD}/{node}", 0):
                self.good.add(node)
            elif self.count_up(f"{FAILED}/{node}", 0):
                text = self.ask(functools.partial(read_text, f"{self.place}/{FAILED}/{node}/text"))
                self.failed[node] = json.loads(text)
                self.count_up(f"{READ}/{node}")

    def list_missing(self) -> list[int]:
        """Return the other nodes that have not ended."""
        return sorted(set(range(self.count)) - {self.number} - self.good - set(self.failed))

    def list_silent(self) -> list[int]:
        """Return those of them that have given signs, and none for a while: as long as the store has answered."""
        since = self.heard - SILENT
        return [node for node in self.list_missing() if 0 < self.signs[node][1] < since]


def place_of(attempt: int) -> str:
    """Return where in the store the nodes write of one start of their ranks."""
    return f"{PREFIX}/{attempt}"


def find_attempt(store: Any, attempt: int) -> int:
    """Return the first start of the ranks, from this one on, that no node has left to start its ranks again.

    Ranks meet under the number of their start: all nodes take the same one, however often each of them has failed.
    """
    while store.add(f"{place_of(attempt)}/{RESTARTS}", 0):
        attempt += 1
    return attempt


def open_again(store: Any) -> Any:
    """Return a connection of its own to a store, where torch can make one: a call that waits holds a lock on it."""
    try:
        again = store.clone()
        again.set_timeout(datetime.timedelta(seconds=SILENT))
    except Exception:  # older releases of torch, and some kinds of stores
        return store
    return again


def read_text(key: str, store: Any) -> Any:
    """Return the text of a key that is there."""
    return store.get(key)
