"""A cancelled job ends the programs that it started, and cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.harness import ROOT

# A program whose parent waits for it, whatever comes, as apt's does in mmdebstrap.
STARTED = """
trap : INT TERM
sh -c 'trap "echo clean >clean; exit 1" INT; : >there; while :; do sleep 0.1; done'
exit 7
"""
BUILD = """
import os, sys
from images.host import process
process.end_as_interrupted()
try:
    process.run(["sh", "-c", sys.argv[1]], os.environ, "", apart=True)
except KeyboardInterrupt as stop:
    sys.exit(128 + stop.args[0])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_every_process_that_runs_apart_has_an_interrupt(tmp_path: Path, number: signal.Signals) -> None:
    command = ["env", "--default-signal=HUP,INT,TERM", sys.executable, "-c", BUILD, STARTED]
    with subprocess.Popen(command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}) as child:
        for _ in range(300):
            if (tmp_path / "there").exists():
                break
            time.sleep(0.1)
        child.send_signal(number)
        child.send_signal(number)
        assert child.wait(60) == 128 + number
    assert (tmp_path / "clean").read_text() == "clean\n"


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
