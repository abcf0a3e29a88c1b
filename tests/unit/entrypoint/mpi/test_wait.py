"""What is said of a host that does not let us in."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import pytest

from entrypoint.mpi import wait
from entrypoint.mpi.wait import REFUSED, SILENT, Access, State, complaint, find_place, try_host, try_ssh, warn_twins

CHANGED = "No ED25519 host key is known for [node1]:2222 and you have requested strict checking.\r\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{CHANGED}Host key verification failed.\r\n", "the server there does not have our key"),
        (
            "Warning: x\nme@node1: Permission denied (publickey).\n",
            "the worker has another key, or runs as another user",
        ),
        (
            "Failed to set uids to 0.\n",
            "the worker has another key, or runs as another user than this container (uid 7)",
        ),
        ("client_loop: send disconnect: Broken pipe\r\n", "the worker has another key"),
        ("Warning: x\nConnection closed by 10.0.0.1 port 2222\n", "Connection closed by 10.0.0.1 port 2222"),
        ("", "exit code 255"),
    ],
)
def test_it_is_said_why_ssh_gave_up(text: str, said: str) -> None:
    assert complaint(text, 255, 7).startswith(said)


@pytest.mark.parametrize(
    ("tries", "state"),
    [
        ([f"{REFUSED}: no", SILENT], f"{REFUSED}: no"),
        ([SILENT, f"{REFUSED}: no"], f"{REFUSED}: no"),
        ([f"{REFUSED}: no", ""], ""),
    ],
)
def test_a_refusal_is_not_forgotten_when_the_deadline_cuts_a_try_short(
    tries: list[str], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, left = {"a": State("not tried")}, list(tries)
    clock = iter([*([0.0] * len(tries)), 2.0])
    monkeypatch.setattr(wait, "try_port", lambda *_: "")
    monkeypatch.setattr(wait, "try_ssh", lambda *_: State(left.pop(0)))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(time, "sleep", lambda _: None)

    try_host("a", Access("config", 2222, {}, 1.0), states)

    assert states == {"a": State(state)}
    assert not left


def test_what_ssh_says_may_be_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's banner has any bytes; the thread that tries its host would end with them."""
    said: dict[str, object] = {}

    def run(argv: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        said.update(options)
        return subprocess.CompletedProcess(argv, 255, "", "no\ufffd")

    monkeypatch.setattr(subprocess, "run", run)
    assert try_ssh("a", Access("config", 2222, {}, time.monotonic() + 3_000_000)) == State(f"{REFUSED}: no\ufffd")
    assert said["errors"] == "replace"
    assert said["timeout"] == 86400  # Python refuses the three million


@pytest.mark.parametrize(
    ("out", "err", "said"),
    [
        ("", "", "exit code 1"),
        ("No login.\n", "", "No login."),
        ("x\n", "Broken pipe", "as another user than"),
        ("", "e", "e"),
    ],
)
def test_a_shell_that_runs_no_command_says_so_on_stdout(
    monkeypatch: pytest.MonkeyPatch, out: str, err: str, said: str
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 1, out, err))
    assert said in try_ssh("a", Access("config", 2222, {}, time.monotonic() + 60)).fault


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({"node0": "a", "node1": "b"}, ""),
        ({"node0": "a", "10.0.0.1": "a", "node1": "b"}, "node0 and 10.0.0.1 are one host"),
        ({"node0": "", "node1": ""}, ""),  # nothing is known of them
    ],
)
def test_one_host_under_two_names_is_said(
    places: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_twins(places)
    assert said in (err := capsys.readouterr().err) and bool(err) == bool(said)


def test_a_host_says_of_itself_what_we_say_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = subprocess.run

    def run(argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return ssh(["sh", "-c", argv[-1]], **options)

    monkeypatch.setattr(subprocess, "run", run)
    assert find_place().count("\n") == 1
    for environ, pin in (({}, None), ({"MULTINODE_SET": "A"}, ""), ({"MULTINODE_SET": "A", "I_MPI_PIN": "0"}, "0")):
        access = Access("config", 2222, {"PATH": "/bin", **environ}, time.monotonic() + 60)
        assert try_ssh("a", access) == State("", find_place(), pin)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("MULTINODE_SET=A B\nI_MPI_PIN=0\nid\nnet\n", State("", "id\nnet", "0")),
        ("Welcome\nI_MPI_PIN=0\nMULTINODE_SET=A\nid\n", State("", "Welcome\nid", "0")),
        ("MULTINODE_SET=A\nid\n", State("", "id", "")),
        ("I_MPI_PIN=1\nid\n", State("", "id")),  # another sshd
        ("", State("")),
    ],
)
def test_a_host_may_say_less(said: str, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 0, said, ""))
    assert try_ssh("a", Access("config", 2222, {}, time.monotonic() + 60)) == state
