"""What is printed: streams of ranks, and secrets, which are not."""

from __future__ import annotations

import io
import re
import shlex
import sys
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.printing import streams
from multinode_image.printing.secrets import SYNTAXES, Syntax, hide, hide_line, hide_text, hide_value, is_secret
from multinode_image.printing.streams import print_error, print_note, print_output
from tests.support.growth import assert_linear, repeat


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


# S is the secret in each.
COMMANDS = """
    x --hub_token S --bf16                          | x --hub_token *** --bf16
    x --hub_token=S                                 | x --hub_token=***
    x --tokens S S --bf16                           | x --tokens *** *** --bf16
    x --secrets S                                   | x --secrets ***
    x --passphrase S                                | x --passphrase ***
    x --passphrase 1234                             | x --passphrase ***
    x --auth S --bearer S --authorization S         | x --auth *** --bearer *** --authorization ***
    x --pass S GH_PAT=S --sig S a                   | x --pass *** GH_PAT=*** --sig *** a
    bash -c 'x --pass S a.py; y --secrets S S'      | bash -c 'x --pass *** a.py; y --secrets ***'
    x --passphrase /S.S PASSWD=/S.S                 | x --passphrase *** PASSWD=***
    x --client-secret=S                             | x --client-secret=***
    x --api_key=S                                   | x --api_key=***
    x api_key=S                                     | x api_key=***
    x APIKEY=S                                      | x APIKEY=***
    x DB_PASSWD=S PGPASSWORD=S MYSQL_PWD=S          | x DB_PASSWD=*** PGPASSWORD=*** MYSQL_PWD=***
    x AWS_SECRET_ACCESS_KEY=S                       | x AWS_SECRET_ACCESS_KEY=***
    x AWS_SECRET_ACCESS_KEY=/S                      | x AWS_SECRET_ACCESS_KEY=***
    x 'A=https;AccountName=a;AccountKey=S==;B=c'    | x 'A=https;AccountName=a;AccountKey=***;B=c'
    x --url 'Server=h;Password=S;B=c'               | x --url 'Server=h;Password=***;B=c'
    curl -u u:S https://h                           | curl -u u:*** https://h
    curl --user u:S https://h -U u:S --proxy-user u:S | curl --user u:*** https://h -U u:*** --proxy-user u:***
    curl -x u:S@h:1 --proxy http://u:S@h:1 -u u     | curl -x u:***@h:1 --proxy http://***@h:1 -u u
    bash -c 'curl -u u:S https://h'                 | bash -c 'curl -u u:*** https://h'
    x https://u:S@h/p s3://S@h                      | x https://***@h/p s3://***@h
    x --proxy http://u:S@h:3128                     | x --proxy http://***@h:3128
    x HTTPS_PROXY=u:S@h:3128                        | x HTTPS_PROXY=***@h:3128
    x 'https://h/p?x=1&token=S&y=2'                 | x 'https://h/p?x=1&token=***&y=2'
    x 'https://h/p?X-Amz-Credential=S&X-Amz-Signature=S&a=b' | x 'https://h/p?X-Amz-Credential=***&X-Amz-Signature=***&a=b'
    x 'https://h/p?sv=1&sig=S%2B&se=2'              | x 'https://h/p?sv=1&sig=***&se=2'
    x Authorization:S Cookie:S X-Api-Key:S          | x Authorization:*** Cookie:*** X-Api-Key:***
    x '?Authorization=Bearer S&S'                   | x '?Authorization=***'
    x 'Cookie:S={"S":"S"}'                          | x Cookie:***
    bash -c 'curl -H "X-Api-Key: S" https://u:S@h'  | bash -c 'curl -H "X-Api-Key: ***" https://***@h'
    curl -H 'Authorization: Bearer S'               | curl -H 'Authorization: ***'
    curl '--header=X-Api-Key: S' -H Authorization:  | curl '--header=X-Api-Key: ***' -H Authorization:
    x X-A:1,Proxy-Authorization:Bearer_S            | x X-A:1,Proxy-Authorization:***
    x '{"revision":"main","token":"S"}'             | x '{"revision":"main","token":"***"}'
    x '--kwargs={"token":"S","seed":1}'             | x '--kwargs={"token":"***","seed":1}'
    x '--json {"api_key" : "S", "seed": 1}'         | x '--json {"api_key" : "***", "seed": 1}'
    bash -c 'cd /x && y --token S; z'               | bash -c 'cd /x && y --token ***; z'
    bash -c 'cd a --api-key="S S" --seed 1'         | bash -c 'cd a --api-key="***" --seed 1'
    bash -c 'export A=b HF_TOKEN=S; x'              | bash -c 'export A=b HF_TOKEN=***; x'
    x '{"auth": {"password": "S", "a": 1}}'         | x '{"auth": ***'
    x '{"tokens": ["S", "S"], "a": 1}'              | x '{"tokens": ***, "a": 1}'
    x 'Authorization=Bearer S' 'Cookie: a=S; b=S'   | x Authorization=*** 'Cookie: ***'
    bash -c 'y --tokens S,S,S; HF_TOKEN_2=S,S&S z'  | bash -c 'y --tokens ***; HF_TOKEN_2=*** z'
    bash -c 'y --hub_token \\<LF> S --bf16'       | bash -c 'y --hub_token \\<LF> *** --bf16'
    x API_KEY_PROD=S --password /S.S sshkey=S       | x API_KEY_PROD=*** --password *** sshkey=***
    curl -uu:S postgres://u:S@h mongodb+srv://u:S@h | curl -uu:*** postgres://***@h mongodb+srv://***@h
    x hf_aaaaaaaaaaaaaaaaaaaa ghp_aaaaaaaaaaaaaaaaaaaa | x *** ***
    x 'Driver={x};UID=sa;PWD=S' --pwd S Pwd=S        | x 'Driver={x};UID=sa;PWD=***' --pwd *** Pwd=***
    x https://hooks.slack.com/services/S/S/S        | x https://hooks.slack.com/***
    x '{"url": "https://discord.com/api/webhooks/1/S"}' | x '{"url": "https://discord.com/api/webhooks/***"}'
    x https://h/webhook/S https://h/webhook/           | x https://h/webhook/*** https://h/webhook/
    x --url=https://a.webhook.office.com/webhookb2/S@S/x/S | x --url=https://a.webhook.office.com/***
    x HTTP_PROXY=proxy:S@h proxy "'https_proxy' : 'u:S@h'" | x HTTP_PROXY=***@h proxy "'https_proxy' : '***@h'"
    x eyJ1c2VybmFtZSI6IlMifQ== eyJhbGciOiJS.eyJzdWIi.S | x ***== ***
    x glpat-aaaaaaaaaa-aaaaaaaaa xoxb-aaaaaaaaaaaaaaaa | x *** ***
    x -----BEGIN\\ OPENSSH\\ PRIVATE\\ KEY-----b3Bl  | x ***
"""
# What a reader of a log needs.
SHOWN = """
    x --tokenizer_name bert --max_tokens 5 --key_lines 3 --key_file /a.b --label_column_name key
    x --max_new_tokens 3 --pad_token_id 0 --use_auth_token True --average_tokens_across_devices False
    x --ssh_key /root/.ssh/id_rsa --author me --keyboard de --hosts=a:2,b:2 --path s3://bucket/a@b
    x MULTINODE_SSH_KEYS=/etc/multinode/ssh HF_TOKEN_PATH=/x PWD=/work OLDPWD=/work
    x --token none --token None --token null --key true --key True --key False --key '"123456789"' --key ~/a/b.c
    x '{"use_reentrant":false,"max_tokens":3}' --token --bf16 registry/a:1@sha256:00 git@host:a/b
    bash -c 'echo the key is here, --token --bf16'
    curl -H 'Accept: text/plain' the proxy is down: ask me:you@host https://h/webhook /a/hooks/b
    python -u train.py -u a --token= a NSS_WRAPPER_PASSWD=/tmp/passwd
"""


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table; <LF> is a line break."""
    return [[part.strip().replace("<LF>", "\n") for part in row.split(" | ")] for row in table.strip().splitlines()]


@pytest.mark.parametrize(("line", "shown"), rows(COMMANDS))
def test_a_command_line_is_shown_without_its_secrets(line: str, shown: str) -> None:
    assert hide(shlex.split(line)) == shlex.split(shown)


@pytest.mark.parametrize("syntax", SYNTAXES, ids=lambda syntax: syntax.example)
def test_each_syntax_hides_the_value_of_its_example_alone(syntax: Syntax) -> None:
    assert hide_line(syntax.example) == re.sub(r"\bS( S)?\b", "***", syntax.example)
    is_prose = syntax.example in ("-H 'Token: S'", "y --tokens S S --a 1", "y --token S a")
    assert (hide_text(syntax.example) == syntax.example) == is_prose


@pytest.mark.parametrize("line", [line for [line] in rows(SHOWN)])
def test_what_is_no_secret_is_shown(line: str) -> None:
    assert hide(shlex.split(line)) == shlex.split(line)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("MASTER_ADDR: 'https://u:S@h/x'", "MASTER_ADDR: 'https://***@h/x'"),
        ("cannot read https://h/p?a=1&sig=S: no route", "cannot read https://h/p?a=1&sig=*** no route"),
        ("--env WANDB_API_KEY=S is refused", "--env WANDB_API_KEY=*** is refused"),
        ("Authorization: Bearer S", "Authorization: ***"),
        ("the hub was sent bearer abcdefgh.1234", "the hub was sent bearer ***"),
        ("the mounted key: permission denied", "the mounted key: permission denied"),
        (
            "--token-secret hf-token, or --hub_token: one of both",
            "--token-secret hf-token, or --hub_token: one of both",
        ),
        ("https://u:S@a b@c https://h/@x", "https://***@a b@c https://h/@x"),
        ("a://S@c://S@e", "a://***@c://***@e"),
        ("", ""),
    ],
)
def test_a_message_is_shown_without_its_secrets(text: str, shown: str) -> None:
    assert hide_text(text) == shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("hub_token", "S", "***"),
        ("HF_TOKEN", "S", "***"),
        ("dataset_name", "https://u:S@h/d?sig=S", "https://***@h/d?sig=***"),
        ("dataset_config", "a;AccountKey=S", "a;AccountKey=***"),
        ("max_tokens", "5", "5"),
        ("https_proxy", "u:S@h:3128", "u:***@h:3128"),
        ("https_proxy", "http://u:S@h:3128", "http://***@h:3128"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/secrets/key.json", "/secrets/key.json"),
        ("prompt", "me:you@home", "me:you@home"),
    ],
)
def test_a_value_is_stored_without_its_secrets(name: str, value: str, shown: str) -> None:
    assert hide_value(name, value) == shown
    assert is_secret(name, value) is (shown == "***")


@pytest.mark.parametrize(
    "unit",
    [
        "proxy:",
        "proxy= ",
        "eyJ-",
        "/..",
        "://hook",
        '"key":{',
        '"key":[',
        "?key=",
        "a-",
        "key=",
        "secret ",
        "--token ",
        "a:",
        '"',
        "key ",
        "proxy ",
    ],
)
def test_a_long_word_takes_no_time(unit: str) -> None:
    assert_linear(lambda text: hide([text]), repeat(unit, '{"x":"', '"}'))


PARTS = [
    "proxy", "=", ":", " ", "a", "@", "eyJ", "-", ".", "-u ", "--user", "token", '"', "'", "{", "://", "hook", "/",
    "\\\n", "sk-", "-----BEGIN ", "PRIVATE KEY-----", "Bearer ", "authorization", ";", "?", "&", "[", "\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4), st.sampled_from(PARTS))
def test_a_text_of_any_parts_takes_time_by_its_length(parts: list[str], end: str) -> None:
    assert_linear(lambda text: (hide([text]), hide_text(text)), repeat("".join(parts), after=end))


@given(st.lists(st.text()))
def test_any_command_line_can_be_shown(words: list[str]) -> None:
    assert len(hide(words)) == len(words)
