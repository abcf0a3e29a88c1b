"""A node that serves ranks by sshd, and who waits for it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from multinode_image.errors import Refusal
from multinode_image.mpi import launch, sshd
from multinode_image.mpi.keys import Keys
from multinode_image.mpi.launch import SILENT, UNTRIED, Access, try_host, try_ssh
from multinode_image.mpi.sshd import choose_variables


@pytest.mark.parametrize(
    ("value", "handed_over"),
    [
        ("hf_a", "hf_a"),
        ("hf_a\n", "hf_a"),  # kubectl create secret --from-file
        ("hf_a\r\n\n", "hf_a"),
        ("X\n", "X"),
        ("hf_a \r", "hf_a \r"),
        ("\n", ""),
        ("a\nb", None),
        ("a\nb\n", None),
    ],
)
def test_a_variable_loses_line_breaks_at_its_end_or_is_named(value: str, handed_over: str | None) -> None:
    environ = {"HF_TOKEN": value, "BASH_FUNC_x%%": "() {\n}", "PWD": "/"}
    whole = {} if handed_over is None else {"HF_TOKEN": handed_over}
    assert choose_variables(environ) == (whole, [] if whole else ["HF_TOKEN"])


def test_more_variables_than_ssh_hands_over_are_refused() -> None:
    assert len(choose_variables({f"V{n}": "" for n in range(900)})[0]) == 900
    with pytest.raises(Refusal, match="901 are set") as caught:
        choose_variables({f"V{n}": "" for n in range(901)})
    assert "enableServiceLinks: false" in caught.value.remedy


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keys:
    """Lend keys that are mounted, and a server that is not started."""
    keys = Keys(str(tmp_path), f"{tmp_path}/id", "ssh-ed25519 AAAA me\n", f"{tmp_path}/authorized_keys")
    monkeypatch.setattr(sshd, "find_keys", lambda *_: keys)
    monkeypatch.setattr(sshd, "make_host_key", lambda *_: ["HostKey /host"])
    monkeypatch.setattr(sshd, "try_port", lambda _: None)
    (tmp_path / "sshd").touch(0o755)
    monkeypatch.setattr(sshd, "SSHD", f"{tmp_path}/sshd")
    return keys


def test_sshd_takes_keys_alone_and_nothing_from_its_clients(keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
    command, environ = sshd.prepare_server(
        {"PEM": "a\nsecret", "TOKEN": 'a"b\\c', "LD_PRELOAD": "/a/libtcmalloc.so.4"}, keys.directory
    )

    assert command == [f"{keys.directory}/sshd", "-D", "-e", "-f", f"{keys.directory}/sshd_config"]
    assert environ["LD_PRELOAD"] == ""  # its sandbox allows few system calls
    lines = Path(command[-1]).read_text().splitlines()
    assert lines[:3] == ["Port 2222", "HostKey /host", f"AuthorizedKeysFile {keys.authorized}"]
    assert not any(line.startswith("AcceptEnv") for line in lines)  # even `none` would be the name of a variable
    assert lines[-1] == r'SetEnv "LD_PRELOAD=/a/libtcmalloc.so.4" "TOKEN=a\"b\\c"'
    assert capsys.readouterr().err == "multinode: ranks do not get variables whose value has a line break: PEM\n"


def test_a_port_that_sshd_cannot_have_is_refused(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshd, "try_port", lambda _: OSError(98, "Address already in use"))
    with pytest.raises(Refusal, match="Address already in use") as caught:
        sshd.prepare_server({"MULTINODE_SSH_PORT": "22"}, keys.directory)
    assert "MULTINODE_SSH_PORT=" in caught.value.remedy and caught.value.code == 2


@pytest.mark.parametrize(
    ("tries", "state"), [(["no", SILENT], "no"), ([SILENT, "no"], "no"), ([SILENT], SILENT), (["no", ""], "")]
)
def test_a_refusal_is_not_forgotten_when_the_deadline_cuts_a_try_short(
    tries: list[str], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, left = {"a": UNTRIED}, list(tries)
    clock = iter([*([0.0] * len(tries)), 2.0])
    monkeypatch.setattr(launch, "try_ssh", lambda *_: left.pop(0))
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
