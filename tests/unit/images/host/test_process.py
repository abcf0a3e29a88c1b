"""What is said of a process that failed, and what signals may interrupt."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from images.host.process import ENDS, Idle, Result, end_as_interrupted, uninterrupted


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Result(2, "", "error: a\n"), "error: a"),
        (Result(2, "", "\n"), "exit code 2"),
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
