"""What goes wrong with a build: the message, and that the store stays good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.harness import ROOT, assert_three_parts, build, built, call, small_disk
from tests.support.stores import USUAL, store_with
from tests.support.web import serving

LARGE = 100_000_000  # bytes whose layer takes half a second
# What a store of another build has kept: all but the layer of the user's own files is there.
KEPT = ("choices", "locks", "bases", "controls", "wheel contents", "bytecode", "layers", "sboms")


def test_a_truncated_download_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    built(*USUAL)
    env = store_with(tmp_path, "choices", "locks")
    with serving() as server:
        server.pages["/v5.tar.gz"], server.script = b"an archive", ["cut"]

        done = build(*USUAL, "--examples", f"{server.url}/v5.tar.gz", env=env)

    assert_three_parts(done, 1, f"{server.url}/v5.tar.gz", "--examples PATH")
    assert not list((tmp_path / "multinode/aside").iterdir())


def test_a_full_disk_is_named_and_a_build_goes_on_when_there_is_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, "40m"):
        full = build(*USUAL, env={"XDG_CACHE_HOME": str(disk)})
        assert_three_parts(full, 1, str(disk), "correct what it names")
        assert "No space left on device" in full.err
        assert not list((disk / "multinode/aside").iterdir())
        assert call(["mount", "-o", "remount,ro", str(disk)]).code == 0
        assert_three_parts(build(*USUAL, env={"XDG_CACHE_HOME": str(disk)}), 1, str(disk), "XDG_CACHE_HOME")


def test_a_build_that_was_interrupted_becomes_whole(tmp_path: Path) -> None:
    """With a large file of the user's own, so that there is one layer to write."""
    built(*USUAL)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/data").write_bytes(os.urandom(LARGE))
    options = (*USUAL, "--workdir", str(tmp_path / "own"))
    env = {**os.environ, **store_with(tmp_path, *KEPT)}
    # A job in the background ignores SIGINT.
    command = ["env", "--default-signal=INT", sys.executable, "build.py", *options]
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE) as child:
        assert child.stderr
        assert any(b"writing layers" in line for line in child.stderr), "it ended before"
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=300)[1].decode()
    assert child.returncode == 130
    assert "Traceback" not in said
    assert "interrupted" in said
    assert build(*options, env=env).code == 0
    assert not list((tmp_path / "multinode/aside").iterdir())
