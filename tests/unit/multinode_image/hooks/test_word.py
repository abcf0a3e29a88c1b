"""What ranks leave for what has started them, and what it says of their end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.__main__ import main
from multinode_image.hooks.job import word
from multinode_image.hooks.job.messenger import Message, Messenger, Ring, are_there
from multinode_image.hooks.job.reason import leave_reason, read_reason, read_time
from multinode_image.hooks.job.word import JOINING, WORD
from tests.support.launchers import left_by

FILE = "TORCHELASTIC_ERROR_FILE"


def test_the_last_line_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environ = {"OTHER": "1"}
    word.offer_place(environ)
    assert word.leave_last_line("trained\n", environ)
    again = {**environ}
    word.offer_place(again)
    assert again == environ and [*Path(environ[WORD]).iterdir()] == []

    assert word.leave_last_line("trained", environ) and word.take_last_line(environ) == ["trained"]
    assert not Path(environ[WORD]).exists() and word.take_last_line(environ) == []


@pytest.mark.parametrize("environ", [{}, {WORD: "/absent"}])
def test_without_a_place_nothing_can_be_left(environ: dict[str, str]) -> None:
    assert not word.leave_last_line("trained", environ) and word.list_words(environ, JOINING) == {}


def test_words_of_ranks_are_listed_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in ("2", "0", "10"):
        (tmp_path / f"idle-{rank}").write_text(f"at {rank}")
    monkeypatch.setattr("os.listdir", lambda _: ["idle-10", "idle-2", "last-line", "idle-0"])

    assert [*word.list_words({WORD: str(tmp_path)}, "idle-").items()] == [("0", "at 0"), ("2", "at 2"), ("10", "at 10")]


PARTS = ["no shared memory is left", "/dev/shm has 64 MB", "docker run --shm-size 1g"]


def read(path: Path) -> Any:
    """Return what torch's agent reads there."""
    return SimpleNamespace(message=json.loads(path.read_text())["message"])


def test_the_agent_has_what_the_rank_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 41.5)
    path = tmp_path / "error.json"

    leave_reason(PARTS, {FILE: str(path)})
    leave_reason(["another"] * 3, {FILE: str(path)})

    assert read_reason(read(path)) == tuple(PARTS) and read_time(read(path)) == 41.5
    assert [*tmp_path.iterdir()] == [path]
    report = read(path).message  # as torch prints it: without the value, which may have a password
    assert report["extraInfo"]["timestamp"] == "41" and "py_callstack" not in report["extraInfo"]
    assert PARTS[0] in report["message"] and PARTS[1] not in report["message"]


def test_a_traceback_that_torch_has_left_stays(tmp_path: Path) -> None:
    path, extra = tmp_path / "error.json", {"py_callstack": "Traceback", "timestamp": "7"}
    path.write_text(json.dumps({"message": {"message": "OSError: 28", "extraInfo": extra}}))

    leave_reason(PARTS, {FILE: str(path)})

    assert read_reason(read(path)) == tuple(PARTS)
    assert extra.items() <= read(path).message["extraInfo"].items() and read(path).message["message"] == "OSError: 28"


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"message": "a text"}'])
def test_a_file_that_is_not_torchs_stays_as_it_is(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / ("error.json" if text is not None else "gone/error.json")
    if text is not None:
        path.write_text(text)

    leave_reason(PARTS, {FILE: str(path)})
    leave_reason(PARTS, {})

    assert (path.read_text() if path.exists() else None) == text


@pytest.mark.parametrize(
    "message", ["a text", {}, {"extraInfo": None}, {"extraInfo": {"multinode": {"parts": ["one"]}}}]
)
def test_a_rank_that_has_left_nothing_has_no_reason(message: object) -> None:
    assert read_reason(SimpleNamespace(message=message)) is None and read_time(SimpleNamespace(message=message)) == 0
    assert read_reason(SimpleNamespace()) is None


def test_a_rank_that_is_refused_before_its_script_leaves_word(tmp_path: Path) -> None:
    environ = {**left_by("torchrun-worker"), "MULTINODE_COUNTS": "1", "MULTINODE_WORLD_SIZE": "8"}

    code = main(["rank", "x.py"], {**environ, FILE: str(tmp_path / "error.json")}, "/nowhere")

    reason = read_reason(read(tmp_path / "error.json"))
    assert code == 2 and reason is not None and reason[1] == "2 of 8"


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
    opened = Messenger(lambda host, port: store)
    yield opened
    store.free.set()
    opened.stop(10)
    assert not opened.thread.is_alive()


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


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(("there", "all_there"), [("", False), ("a", False), ("b", False), ("ab", True)])
def test_a_store_has_all_keys_or_not_all(store: Store, is_old: bool, there: str, all_there: bool) -> None:
    store.values.update({name: name.encode() for name in there})

    assert are_there(OldStore(store) if is_old else store, ["a", "b"]) is all_there


def test_what_nobody_answers_holds_nobody(store: Store, messenger: Messenger) -> None:
    heard: list[Any] = []

    messenger.send(say(FIRST, b"a", heard))

    assert not messenger.wait(lambda: bool(heard), 0.05) and not messenger.idle
    assert store.values == {"multinode/0/3/group/key/0": b"a"}


def test_a_store_that_stands_still_holds_its_own_thread(store: Store, messenger: Messenger) -> None:
    store.free.clear()

    messenger.send(say(FIRST, b"a", []))
    messenger.stop(0.05)

    assert messenger.thread.is_alive() and messenger.thread.daemon


def test_a_store_that_has_gone_is_asked_once(store: Store, messenger: Messenger) -> None:
    store.gone = True

    for _ in range(3):
        messenger.send(say(FIRST, b"a", []))
    messenger.wait(lambda: False, 10)

    assert messenger.idle and store.asked == 1


def test_what_was_asked_of_a_store_that_goes_is_given_up(store: Store, messenger: Messenger) -> None:
    messenger.send(say(FIRST, b"a", []))
    messenger.wait(lambda: bool(store.values), 10)
    store.gone = True

    assert not messenger.wait(lambda: False, 10) and messenger.idle


def test_all_that_was_said_before_a_stop_is_sent(store: Store, messenger: Messenger) -> None:
    messenger.send(say(SECOND, b"b"))
    messenger.stop(10)

    assert store.values == {"multinode/0/3/group/key/1": b"b"}
