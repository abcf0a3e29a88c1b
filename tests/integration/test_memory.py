"""The memory of a build from nothing: a change can double it while every other test passes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.host import memory
from benchmarks.promises import PROMISES
from tests.support.harness import ROOT

LIMIT = next(promise.most for promise in PROMISES if promise.figure == "memory")


@pytest.mark.slow
def test_a_build_from_nothing_keeps_the_promised_memory(tmp_path: Path) -> None:
    """It is in the page of benchmarks, which are measured by hand and seldom."""
    command = [sys.executable, str(ROOT / "build.py"), "--examples", "none", "--no-load"]
    assert LIMIT is not None
    assert memory.peak_of(command, {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}) < LIMIT
