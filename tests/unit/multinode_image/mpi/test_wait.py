"""What is said of a host that does not let us in."""

from __future__ import annotations

import subprocess
import time

import pytest

from multinode_image.mpi import wait
from multinode_image.mpi.wait import SILENT, UNTRIED, Access, try_host, try_ssh


@pytest.mark.parametrize(
    ("tries", "state"), [(["no", SILENT], "no"), ([SILENT, "no"], "no"), ([SILENT], SILENT), (["no", ""], "")]
)
def test_a_refusal_is_not_forgotten_when_the_deadline_cuts_a_try_short(
    tries: list[str], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, left = {"a": UNTRIED}, list(tries)
    clock = iter([*([0.0] * len(tries)), 2.0])
    monkeypatch.setattr(wait, "try_ssh", lambda *_: left.pop(0))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(time, "sleep", lambda _: None)

    try_host("a", Access("config", 2222, {}, 1.0), states)

    assert states == {"a": state}
    assert not left


def test_what_ssh_says_may_be_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's banner has any bytes; the thread that tries its host would end with them."""
    said: dict[str, object] = {}

    def run(argv: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        said.update(options)
        return subprocess.CompletedProcess(argv, 255, "", "no\ufffd")

    monkeypatch.setattr(subprocess, "run", run)
    assert try_ssh("a", Access("config", 2222, {}, time.monotonic() + 3_000_000)) == "no\ufffd"
    assert said["errors"] == "replace"
    assert said["timeout"] == 86400  # Python refuses the three million


@pytest.mark.parametrize(
    ("out", "err", "said"),
    [("", "", "exit code 1"), ("No login.\n", "", "No login."), ("x\n", "warning\nBroken pipe\n", "Broken pipe")],
)
def test_a_shell_that_runs_no_command_says_so_on_stdout(
    monkeypatch: pytest.MonkeyPatch, out: str, err: str, said: str
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 1, out, err))
    assert said == try_ssh("a", Access("config", 2222, {}, time.monotonic() + 60))
