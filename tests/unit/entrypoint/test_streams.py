"""Streams that cannot be written."""

from __future__ import annotations

import io
import sys
from typing import TextIO

import pytest

from entrypoint import streams as printed
from entrypoint.errors import WORLD, Refusal
from entrypoint.streams import hide, hide_users, print_error, print_note, print_output


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
    monkeypatch.setattr(printed, "mute", lambda _, number: numbers.append(number))
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
    assert caught.value.code == WORLD and muted == [1]


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "\\udcff \xfc"), ("ascii", "\\udcff \\xfc")])
def test_what_is_no_text_is_shown(monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    print_output("\udcff \xfc")
    stream.seek(0)
    assert stream.read() == f"{shown}\n"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("cd /x && python3 x.py --hub_token hf_x --bf16", "cd /x && python3 x.py --hub_token *** --bf16"),
        ("export A=b HF_TOKEN=hf_x; x", "export A=b HF_TOKEN=***; x"),
        ("HF_TOKEN='a b' x", "HF_TOKEN=***"),  # the whole of a word that is an assignment
        ('a --api-key="k k" --seed 1', "a --api-key=***"),
        ('cd a --api-key="k k" --seed 1', "cd a --api-key=***"),
        ("curl -H 'Authorization: Bearer abc' https://h", "curl -H 'Authorization: ***' https://h"),
        ("curl -H 'X-Api-Key: abc' https://u:p@h/x y@z", "curl -H 'X-Api-Key: ***' https://***@h/x y@z"),
        ("--hub [1, {'hub_token': 'hf_x'}]", "--hub [1, {'hub_token': '***'}]"),
        ('--json {"api_key" : "k", "seed": 1}', '--json {"api_key" : "***", "seed": 1}'),
        ("x --tokenizer_name t --max_new_tokens 3 --seed 1", "x --tokenizer_name t --max_new_tokens 3 --seed 1"),
        ("echo the key is here, --token --bf16", "echo the key is here, --token --bf16"),
    ],
)
def test_secrets_in_a_line_of_shell_are_hidden(line: str, shown: str) -> None:
    assert hide(["bash", "-c", line]) == ["bash", "-c", shown]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--hub_token=x", "--hub_token=***"),
        ("--api_key=x", "--api_key=***"),
        ("--client-secret=x", "--client-secret=***"),
        ("DB_PASSWORD=x", "DB_PASSWORD=***"),
        ("DB_PASSWD=x", "DB_PASSWD=***"),
        ("Authorization:x", "Authorization: ***"),
        ("Proxy-Authorization:x", "Proxy-Authorization: ***"),
        ("Cookie:x", "Cookie: ***"),
        ("https://h/x?Signature=x&a=b", "https://h/x?Signature=***&a=b"),
        ("https://h/x?X-Amz-Credential=x&a=b", "https://h/x?X-Amz-Credential=***&a=b"),
        ("https://h/x?sv=1&sig=x", "https://h/x?sv=1&sig=***"),
    ],
)
def test_every_secret_in_a_word_is_hidden(word: str, shown: str) -> None:
    assert hide([word]) == [shown]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("MASTER_ADDR: 'https://u:p@h/x'", "MASTER_ADDR: 'https://***@h/x'"),
        ("https://u:p@a b@c https://h/@x", "https://***@a b@c https://h/@x"),
        ("s3://bucket/a@b nothing", "s3://bucket/a@b nothing"),
        ("a://b@c://d@e", "a://***@c://***@e"),
        ("", ""),
    ],
)
def test_passwords_in_addresses_are_never_printed(capsys: pytest.CaptureFixture[str], text: str, shown: str) -> None:
    assert hide_users(text) == shown
    print_error(text)
    print_output(text)
    assert tuple(capsys.readouterr()) == (f"{shown}\n", f"{shown}\n")


def test_a_note_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_note("waiting for a\nmultinode: rank 0\x1b[2J")
    assert capsys.readouterr().err == "multinode: waiting for a\\nmultinode: rank 0\\x1b[2J\n"
