"""What a command of build.py imports, and from where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.harness import ROOT

SCRIPT = """\
import sys, time
from datetime import date
from images import cli
code = cli.main(["plan", "--json"], cli.World({}, date(2026, 11, 20), time.monotonic))
print(code, sorted({"docker", "elftools", "requests", "images.commands"} & set(sys.modules)), file=sys.stderr)
"""


def test_planning_imports_nothing_that_builds() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stderr == "0 []\n"


@pytest.mark.parametrize(("flags", "environ"), [(["-I"], {}), ([], {"PYTHONSAFEPATH": "1"})])
def test_a_python_that_leaves_out_the_directory_of_a_script_finds_ours(
    flags: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, *flags, str(ROOT / "build.py"), "plan"]

    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
