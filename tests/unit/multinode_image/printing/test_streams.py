"""Streams that cannot be written."""

from __future__ import annotations

import io
import sys
from typing import TextIO

import pytest

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.printing import streams
from multinode_image.printing.streams import print_error, print_note, print_output


class Broken(io.TextIOWrapper):
    """A stream on which writing fails as the system would let it fail."""

    def __init__(self, error: OSError) -> None:
        super().__init__(io.BytesIO(), encoding="ascii")
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.fixture
def muted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note what is pointed at nothing, rather than doing so to the streams of the tests."""
    numbers: list[int] = []
    monkeypatch.setattr(streams, "mute", lambda _, number: numbers.append(number))
    return numbers


@pytest.mark.parametrize("stream", [None, Broken(OSError(28, "No space left on device")), Broken(BrokenPipeError())])
def test_a_log_that_cannot_be_written_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], muted: list[int], stream: TextIO | None
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    print_error("hello")
    assert capsys.readouterr().out == ""
    assert muted == ([2] if stream else [])


def test_a_reader_may_leave(monkeypatch: pytest.MonkeyPatch, muted: list[int]) -> None:
    for stream in (None, Broken(BrokenPipeError())):
        monkeypatch.setattr(sys, "stdout", stream)
        print_output("hello")
    assert muted == [1]


def test_an_answer_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch, muted: list[int]) -> None:
    monkeypatch.setattr(sys, "stdout", Broken(OSError(28, "No space left on device")))
    with pytest.raises(Refusal, match="No space left") as caught:
        print_output("hello")
    assert caught.value.code == EXIT_OUTSIDE and muted == [1]


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "\\udcff \xfc"), ("ascii", "\\udcff \\xfc")])
def test_what_is_no_text_is_shown(monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    print_output("\udcff \xfc")
    stream.seek(0)
    assert stream.read() == f"{shown}\n"


def test_nothing_secret_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("https://u:p@h/x")
    print_output("https://u:p@h/x")
    assert tuple(capsys.readouterr()) == ("https://***@h/x\n", "https://***@h/x\n")


def test_a_note_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_note("waiting for a\nmultinode: rank 0\x1b[2J")
    assert capsys.readouterr().err == "multinode: waiting for a\\nmultinode: rank 0\\x1b[2J\n"
