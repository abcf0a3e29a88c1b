"""Which ssh is run, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.machine.files import make_private
from entrypoint.mpi import keys, ssh
from entrypoint.mpi.keys import Keys
from entrypoint.mpi.ssh import connect, read_words

PRELOADS = "/a/libtcmalloc.so.4:/b/libnss_wrapper.so"


def test_without_a_mounted_key_it_is_ssh_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "make_private", lambda place: make_private(f"{tmp_path}/private{place}"))
    environ = {"HOME": str(tmp_path), "MULTINODE_SSH_KEYS": str(tmp_path), "LD_PRELOAD": PRELOADS}

    argv, env = connect(["node1", "true"], environ)

    assert argv == ["ssh", "node1", "true"]
    assert env["LD_PRELOAD"] == "/b/libnss_wrapper.so"


def test_a_configuration_that_is_named_is_used(tmp_path: Path) -> None:
    (tmp_path / "id_ed25519").write_text("not looked at")

    argv, _ = connect(["-F", "/mine", "node1"], {"MULTINODE_SSH_KEYS": str(tmp_path)})

    assert argv == ["ssh", "-F", "/mine", "node1"]


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (["-F", "/mine", "node1"], True),
        (["-F/mine", "node1"], True),
        (["-qF", "/mine", "node1"], True),
        (["node1", "ls", "-F", "/workspace"], False),
        (["-p", "22", "node1", "ls", "-F"], False),
        (["-l", "-F", "node1"], False),
        (["-oForwardAgent=no", "node1"], False),
    ],
)
def test_only_an_option_before_the_host_names_a_configuration(
    words: list[str], own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(str(tmp_path), f"{tmp_path}/id", "ssh-ed25519 AAAA me\n", f"{tmp_path}/authorized_keys")
    monkeypatch.setattr(ssh, "copy_keys", lambda environ: keys)
    monkeypatch.setattr(ssh, "is_here", lambda host: False)

    argv, _ = connect(words, {})

    assert argv == (["ssh", *words] if own else ["ssh", "-F", argv[2], *words])


@pytest.mark.parametrize(
    ("words", "host", "command", "options"),
    [
        (["node1"], "node1", [], ""),
        (["-q", "-x", "me@node1", "hydra", "--x"], "node1", ["hydra", "--x"], "qx"),
        (["-F", "/c", "-oBatchMode=yes", "-p", "22", "node1", "true"], "node1", ["true"], "Fop"),
        (["-qp", "22", "--", "node1", "-v"], "node1", ["-v"], "qp"),
        ([], "", [], ""),
        (["-p"], "", [], "p"),
    ],
)
def test_host_and_command_are_read_behind_the_options_of_ssh(
    words: list[str], host: str, command: list[str], options: str
) -> None:
    assert read_words(words) == (host, command, options)


def test_a_command_for_this_machine_needs_no_server() -> None:
    argv, env = connect(["-q", "127.0.0.1", "echo", "$HOME;", "true"], {"LD_PRELOAD": PRELOADS})

    assert argv == ["sh", "-c", "echo $HOME; true"]
    assert env["LD_PRELOAD"] == PRELOADS
