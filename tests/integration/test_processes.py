"""Programs that a build starts, work beside other work, and signals that end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from images.host import process
from images.host.background import background
from images.host.errors import UserFault, WorldFault
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


def test_who_is_not_there_cannot_answer() -> None:
    with pytest.raises(WorldFault, match=r"(?s)cannot start a program: nowhere .*try: install it"):
        answer(["nowhere"], {"PATH": os.defpath}, "install it", 60)


def test_what_no_program_can_be_given_is_named() -> None:
    with pytest.raises(WorldFault, match=r"cannot start a program: true .*null byte"):
        answer(["true"], {"PATH": os.defpath, "A": "\0"}, "install it", 60)


ENOUGH = 30  # seconds


def run(command: str) -> process.Result:
    return process.run(["sh", "-c", command], os.environ, "install sh")


def test_tasks_run_one_after_another_beside_the_block(tmp_path: Path) -> None:
    with background() as tasks:
        first = tasks(lambda: run(f"until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo first"))
        second = tasks(lambda: first.result().out + "second")
        (tmp_path / "go").touch()

        assert second.result() == "first\nsecond"


@pytest.mark.parametrize("error", [UserFault("a fact", "a value", "a remedy"), KeyboardInterrupt()], ids=repr)
def test_where_the_block_fails_programs_end_and_nothing_more_is_begun(tmp_path: Path, error: BaseException) -> None:
    began = time.monotonic()
    with pytest.raises(type(error)), background() as tasks:
        tasks(
            lambda: run(
                f"trap 'touch {tmp_path}/ended; exit' TERM; touch {tmp_path}/begun; while :; do sleep 0.1; done"
            )
        )
        tasks(lambda: run(f"touch {tmp_path}/next"))
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
