"""Which ssh is run, without running it."""

from __future__ import annotations

from pathlib import Path

from entrypoint.connect import connect

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
