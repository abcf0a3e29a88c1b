"""Tasks beside the main thread: their results and faults, and the end of their programs where the main thread fails."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from images.host import process
from images.host.background import background
from images.host.errors import UserFault
from tests.support.harness import wait_for

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
