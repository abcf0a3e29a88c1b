"""Programs that a build starts, work beside other work, and signals that end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from images.host import process
from images.host.background import background
from images.host.errors import UserFault
from images.host.process import Result, answer
from tests.support.harness import ROOT, wait_for


@pytest.mark.parametrize(
    ("script", "seconds", "expected"),
    [
        ("echo out; echo err >&2; exit 3", 60, Result(3, "out\n", "err\n")),
        ("cat", 60, Result(0, "", "")),
        ("sleep 60", 0.1, None),
        ("trap '' TERM INT; sleep 60 & wait; sleep 60", 0.1, None),
    ],
)
def test_who_does_not_answer_in_time_is_killed(script: str, seconds: float, expected: Result | None) -> None:
    begun = time.monotonic()

    assert answer(["sh", "-c", script], {"PATH": os.defpath}, "install it", seconds) == expected
    assert time.monotonic() - begun < 30


ENOUGH = 30  # seconds


@pytest.mark.parametrize("error", [UserFault("a fact", "a value", "a remedy"), KeyboardInterrupt()], ids=repr)
def test_where_the_block_fails_programs_end_and_nothing_more_is_begun(tmp_path: Path, error: BaseException) -> None:
    began = time.monotonic()
    with pytest.raises(type(error)), background() as tasks:
        for script in ("trap 'touch ended; exit' TERM; touch begun; while :; do sleep 0.1; done", "touch next"):
            tasks(partial(process.run, ["sh", "-c", f"cd {tmp_path}; {script}"], os.environ, "install sh"))
        assert wait_for((tmp_path / "begun").exists, ENOUGH)
        raise error

    assert time.monotonic() - began < ENOUGH
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "ended"]


# What Python imports at its start: it interrupts its own process where AT is imported.
CUSTOMIZED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == os.environ["AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(
    ("program", "module"),
    [
        ("build.py", "images.cli"),
        ("scripts/manifest.py", "manifests.cli"),
        ("scripts/update_versions.py", "scripts.versions.package_index"),
    ],
)
def test_an_interrupt_while_modules_are_imported_has_no_traceback(tmp_path: Path, program: str, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(CUSTOMIZED)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "AT": module}
    command = ["env", "--default-signal=INT", sys.executable, str(ROOT / program), "--help"]

    done = subprocess.run(command, env=environ, capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
