"""Which ssh is run, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.cluster.ssh import connect, read_words

PRELOADS = "/a/libtcmalloc.so.4:/b/libnss_wrapper.so"


def test_without_a_mounted_key_it_is_ssh_as_it_stands(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MULTINODE_SSH_KEYS": str(tmp_path), "LD_PRELOAD": PRELOADS}

    argv, env = connect(["node1", "true"], environ)

    assert argv == ["ssh", "node1", "true"]
    assert env["LD_PRELOAD"] == "/b/libnss_wrapper.so"


def test_a_configuration_that_is_named_is_used(tmp_path: Path) -> None:
    (tmp_path / "id_ed25519").write_text("not looked at")

    argv, _ = connect(["-F", "/mine", "node1"], {"MULTINODE_SSH_KEYS": str(tmp_path)})

    assert argv == ["ssh", "-F", "/mine", "node1"]


@pytest.mark.parametrize(
    ("words", "host", "command"),
    [
        (["node1"], "node1", []),
        (["-q", "-x", "me@node1", "hydra", "--x"], "node1", ["hydra", "--x"]),
        (["-F", "/c", "-oBatchMode=yes", "-p", "22", "node1", "true"], "node1", ["true"]),
        (["-qp", "22", "--", "node1", "-v"], "node1", ["-v"]),
        ([], "", []),
        (["-p"], "", []),
    ],
)
def test_host_and_command_are_read_behind_the_options_of_ssh(words: list[str], host: str, command: list[str]) -> None:
    assert read_words(words) == (host, command)


def test_a_command_for_this_machine_needs_no_server() -> None:
    argv, env = connect(["-q", "127.0.0.1", "echo", "$HOME;", "true"], {"LD_PRELOAD": PRELOADS})

    assert argv == ["sh", "-c", "echo $HOME; true"]
    assert env["LD_PRELOAD"] == PRELOADS
