"""A cancelled job ends the programs that it started, and cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.harness import ROOT

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
