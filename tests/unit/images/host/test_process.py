"""What is said of a process that failed, and what signals may interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from images.host import process
from images.host.errors import WorldFault
from images.host.process import ENDS, Idle, Result, end_as_interrupted, uninterrupted


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Result(2, "", "error: a\n"), "error: a"),
        (Result(2, "", "\n"), "exit code 2"),
        (Result(0, "", ""), "exit code 0"),
        (Result(-9, "", ""), "ended by signal 9"),
        (Result(-9, "", "warning: a\n"), "warning: a\nended by signal 9"),
    ],
)
def test_a_failure_says_what_ended_a_program(result: Result, said: str) -> None:
    assert result.account == said


@pytest.mark.parametrize(
    ("err", "said"),
    [
        ("first\nlast: na\u00efve\n", "last: na\u00efve"),
        ("\x1b]0;a title\x07\x1b[2Jgone\x9b1m", "?]0;a title??[2Jgone?1m"),
        ("", "exit code 7"),
    ],
)
def test_a_failure_is_a_line_that_does_not_steer_the_terminal(err: str, said: str) -> None:
    assert Result(7, "", err).failure == said
    assert Result(0, "", err).failure is None


def test_another_thread_leaves_the_handler_alone() -> None:
    """Only the main one may set it, and is interrupted."""
    seen: list[object] = []

    def look() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


@pytest.mark.parametrize("number", ENDS)
def test_the_end_of_a_job_interrupts_once(foreground: None, number: signal.Signals) -> None:
    """A second one, as timeout sends it, lets the cleaning up end."""
    end_as_interrupted()
    with pytest.raises(KeyboardInterrupt) as raised:
        signal.raise_signal(number)
    for signum in ENDS:
        signal.raise_signal(signum)

    assert raised.value.args == (number,)


def test_what_is_ignored_stays_ignored(foreground: None) -> None:
    """As nohup starts a program."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_as_interrupted()

    with uninterrupted():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.parametrize("number", [signal.SIGINT, *ENDS])
def test_a_signal_waits_for_the_end_of_a_block(foreground: None, number: signal.Signals) -> None:
    end_as_interrupted()
    before, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(number)
        signal.raise_signal(number)
        done.append("the rest")
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("counts", "seconds"),
    [
        ([b"1", b"2", b"3"], [0, 0, 0]),
        ([b"1", b"1", b"1", b"2"], [0, 1, 2, 0]),
        ([None, None], [0, 0]),
    ],
)
def test_a_process_is_idle_from_its_last_byte_on(
    counts: list[bytes | None], seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    left, clock, told = iter(counts), iter(range(10)), list[float]()
    monkeypatch.setattr(Idle, "_read", lambda _: next(left))
    idle = Idle(0, told.append, lambda: next(clock))

    for _ in counts:
        idle()

    assert told == seconds


def test_who_cannot_be_watched_is_never_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = Idle(0, (told := list[float]()).append, iter(range(9)).__next__)
    monkeypatch.setattr(idle, "_counts", tmp_path / "none")

    idle()

    assert told == [0]


class Child:
    """A program that ends after so many ticks, and which signals and waits it gets."""

    def __init__(self, ticks: int, log: list[object], fails: Exception | None = None) -> None:
        self.ticks, self.log, self.fails = ticks, log, fails
        self.pid, self.returncode = 7, 3

    def __call__(self, command: object, **options: object) -> Child:
        if self.fails:
            raise self.fails
        self.log.append((command, options["env"], options.get("start_new_session", False)))
        return self

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append("closed")

    def communicate(self, timeout: float | None = None) -> tuple[bytes | None, bytes]:
        self.ticks -= 1
        if self.ticks >= 0 and timeout is not None:
            raise subprocess.TimeoutExpired("x", timeout)
        self.log.append("waited for")
        return b"out\xff", b"err"

    def terminate(self) -> None:
        self.log.append("terminated")


def start(patch: pytest.MonkeyPatch, child: Child) -> None:
    patch.setattr(subprocess, "Popen", child)
    patch.setattr(os, "killpg", lambda *given: child.log.append(given))


@pytest.mark.parametrize(("ticks", "stops_at"), [(0, None), (2, None), (3, 2)])
def test_a_program_runs_to_its_end_or_until_a_tick_ends_it(
    monkeypatch: pytest.MonkeyPatch, ticks: int, stops_at: int | None
) -> None:
    log, seen, idle = list[object](), list[str](), list[float]()

    def tick() -> None:
        seen.append("tick")
        if len(seen) == stops_at:
            raise ZeroDivisionError

    start(monkeypatch, Child(ticks, log))
    monkeypatch.setattr(Idle, "_read", lambda _: None)
    if stops_at:
        with pytest.raises(ZeroDivisionError):
            process.run(["true"], {"A": "1"}, "remedy", tick=tick, idle=idle.append)
    else:
        done = process.run(["true"], {"A": "1"}, "remedy", tick=tick, idle=idle.append)
        assert done == Result(3, "out\ufffd", "err")
    assert (len(seen), len(idle)) == ((stops_at, stops_at - 1) if stops_at else (ticks, ticks))
    assert log == [(["true"], {"A": "1"}, False), *["terminated"] * bool(stops_at), "waited for"]


def test_a_program_that_is_not_wanted_any_more_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    log, stop = list[object](), threading.Event()
    stop.set()
    start(monkeypatch, Child(1, log))

    def run() -> None:
        process.STOPS.set((stop,))
        process.run(["true"], {}, "remedy")

    with pytest.raises(process.Stopped):
        copy_context().run(run)
    assert log[1:] == ["terminated", "waited for"]


@pytest.mark.parametrize(("ticks", "expected"), [(0, Result(3, "out\ufffd", "err")), (1, None)])
def test_a_program_that_only_answers_is_killed_with_its_group_where_it_does_not(
    monkeypatch: pytest.MonkeyPatch, ticks: int, expected: Result | None
) -> None:
    log = list[object]()
    start(monkeypatch, Child(ticks, log))

    assert process.answer(["true"], {}, "remedy", 5) == expected
    done = "waited for" if expected else (7, signal.SIGKILL)
    assert log == [(["true"], {}, True), done, "closed"]


def test_an_answer_that_is_interrupted_is_killed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    log = list[object]()
    child = Child(0, log)

    def interrupt(timeout: float | None = None) -> tuple[bytes | None, bytes]:
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "communicate", interrupt)
    start(monkeypatch, child)
    with pytest.raises(KeyboardInterrupt):
        process.answer(["true"], {}, "remedy", 5)
    assert log[1:] == [(7, signal.SIGKILL), "closed"]


@pytest.mark.parametrize("fails", [FileNotFoundError(2, "No such file"), ValueError("embedded null byte")])
def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, fails: Exception) -> None:
    start(monkeypatch, Child(0, [], fails))
    with pytest.raises(WorldFault, match="cannot start a program") as caught:
        process.run(["skopeo"], {}, "install it")
    assert caught.value.value == f"skopeo ({getattr(fails, 'strerror', fails)})" and caught.value.remedy == "install it"


def test_a_text_is_the_input_of_a_program() -> None:
    with process.nameless("a text") as file:
        assert file.read() == b"a text"


@dataclass
class Quick:
    """A process that ends at once, and remembers how it was started."""

    options: dict[str, Any]
    returncode: int = 3
    pid: int = 0

    def __enter__(self) -> Quick:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def communicate(self, timeout: float) -> tuple[bytes | None, bytes]:
        self.options["timeout"] = timeout
        return (b"out\xff" if self.options["stdout"] == subprocess.PIPE else None), b"err\xff"


def test_a_program_is_started_with_its_words_its_variables_and_its_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = list[dict[str, Any]]()

    def start(command: Sequence[str], **options: Any) -> Quick:
        started.append({"command": command, **options})
        return Quick(started[-1])

    monkeypatch.setattr(subprocess, "Popen", start)
    words, environ = ["a", "b"], {"A": "1"}
    with (tmp_path / "out").open("wb") as out, (tmp_path / "out").open("rb") as feed:
        results = [process.run(words, environ, "r"), process.run(words, environ, "r", feed, out=out, cwd=tmp_path)]
        answered = process.answer(words, environ, "r", 7)

    usual = {"command": words, "env": environ, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    plain = {**usual, "stdout": subprocess.PIPE, "cwd": None, "timeout": process.TICK}
    asked = {**usual, "stdout": subprocess.PIPE, "start_new_session": True, "timeout": 7}
    assert started == [plain, {**plain, "stdin": feed, "stdout": out, "cwd": tmp_path}, asked]
    assert [*results, answered] == [Result(3, text, "err\ufffd") for text in ("out\ufffd", "", "out\ufffd")]
