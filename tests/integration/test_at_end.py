"""The exit code of a Python that ^C ended, whatever was run at its exit before the program of an image."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from images.layers.entrypoint_layer import AT_END, MULTINODE
from tests.support.harness import ROOT

# What is registered last runs first: a library makes a named tuple, as torch's dump_compile_times does.
ENDS = f"""\
import atexit, collections, os, signal, sys, time, types
sys.modules["torch.distributed.distributed_c10d"] = types.ModuleType("distributed_c10d")
exec({AT_END.replace(f"/{MULTINODE}/", f"{ROOT}/")!r})
atexit.register(collections.namedtuple, "Row", "a b")
{{last}}
"""


@pytest.mark.parametrize(
    ("last", "code"),
    [
        pytest.param("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", -signal.SIGINT, id="^C"),
        pytest.param("sys.ps1 = '>'; raise KeyboardInterrupt", 1, id="^C at a prompt"),
        pytest.param("raise ValueError", 1, id="an error"),
        pytest.param("raise SystemExit(3)", 3, id="an exit code of its own"),
        pytest.param("pass", 0, id="done"),
    ],
)
def test_a_program_that_was_interrupted_ends_by_that_signal(last: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", ENDS.format(last=last)], capture_output=True, timeout=60)

    assert done.returncode == code
