"""The exit code of a program is its own, whatever runs at its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from images.layers.entrypoint_layer import AT_END, MULTINODE
from tests.support.harness import ROOT

# As the .pth file of an image does, in a program that has imported torch.distributed, and so these modules.
PROGRAM = """
import contextlib, pathlib, pkgutil, sys, types, typing
sys.modules["torch.distributed.distributed_c10d"] = types.ModuleType("distributed_c10d")
exec({line!r})
{last}
"""


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("raise KeyboardInterrupt", -signal.SIGINT),  # a loop of a shell goes on after any other
        ("raise SystemExit(7)", 7),
        ("raise ValueError", 1),
        ("pass", 0),
    ],
)
def test_the_exit_code_is_the_programs_own(tmp_path: Path, last: str, code: int) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(line=AT_END.replace(f"/{MULTINODE}/", f"{ROOT}/"), last=last))

    done = subprocess.run([sys.executable, str(program)], capture_output=True, timeout=60)

    assert done.returncode == code
