"""What ranks say to each other by the job's store, which is made up: nobody waits for others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from multinode_image.hooks.job.messenger import Message, Messenger, Ring

FIRST, SECOND, THIRD = (Ring("pod0", 29500, "multinode/0/3/group", rank, 3) for rank in range(3))


class Store:
    """Make up a store that all ranks share."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.asked, self.gone = 0, False
        self.free = threading.Event()
        self.free.set()

    def touch(self) -> None:
        self.asked += 1
        self.free.wait(10)
        if self.gone:
            raise RuntimeError("Connection reset by peer")

    def set(self, name: str, text: bytes) -> None:
        self.touch()
        self.values[name] = text

    def check(self, names: list[str]) -> bool:
        self.touch()
        return all(name in self.values for name in names)

    def get(self, name: str) -> bytes:
        return self.values[name]


class OldStore:
    """Make up one of torch before 2.3, which cannot be asked for keys."""

    def __init__(self, shared: Store) -> None:
        self.set, self.get, self.shared = shared.set, shared.get, shared

    def compare_set(self, name: str, expected: str, desired: str) -> bytes:
        assert expected == desired  # so that nothing is changed
        self.shared.touch()
        return self.shared.values.get(name, expected.encode())


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def messenger(store: Store) -> Iterator[Messenger]:
    made = Messenger(lambda host, port: store)
    yield made
    store.free.set()
    made.stop(10)
    assert not made.thread.is_alive()


def say(ring: Ring, text: bytes, heard: list[Any] | None = None) -> Message:
    return Message(ring, "key", text, None if heard is None else heard.append)


def test_the_first_rank_hears_all_and_each_other_one_the_next(store: Store, messenger: Messenger) -> None:
    heard: tuple[list[Any], ...] = ([], [], [])

    for ring, text, into in zip((FIRST, SECOND, THIRD), (b"a", b"b", b"c"), heard, strict=True):
        messenger.send(say(ring, text, into))

    assert not messenger.wait(lambda: False, 10) and messenger.idle
    assert heard == ([[b"b", b"c"]], [[b"c"]], [[b"a"]])


def test_a_store_of_an_older_torch_is_asked_without_a_wait(store: Store) -> None:
    old = Messenger(lambda host, port: OldStore(store))
    heard: list[Any] = []
    old.send(say(SECOND, b"a", heard))
    assert not old.wait(lambda: bool(heard), 0.1)

    old.send(say(THIRD, b"\0\xff"))

    assert old.wait(lambda: bool(heard), 10) and heard == [[b"\0\xff"]]
    old.stop(10)


def test_what_nobody_answers_holds_nobody(store: Store, messenger: Messenger) -> None:
    heard: list[Any] = []

    messenger.send(say(FIRST, b"a", heard))

    assert not messenger.wait(lambda: bool(heard), 0.05) and not messenger.idle
    assert store.values == {"multinode/0/3/group/key/0": b"a"}


def test_a_store_that_stands_still_holds_its_own_thread(store: Store, messenger: Messenger) -> None:
    store.free.clear()

    messenger.send(say(FIRST, b"a", []))
    messenger.stop(0.05)

    assert messenger.thread.is_alive()


def test_a_store_that_has_gone_is_asked_once(store: Store, messenger: Messenger) -> None:
    store.gone = True

    for _ in range(3):
        messenger.send(say(FIRST, b"a", []))
    messenger.wait(lambda: False, 10)

    assert messenger.idle and store.asked == 1


def test_all_that_was_said_before_a_stop_is_sent(store: Store, messenger: Messenger) -> None:
    messenger.send(say(SECOND, b"b"))
    messenger.stop(10)

    assert store.values == {"multinode/0/3/group/key/1": b"b"}
