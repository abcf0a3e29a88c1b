"""What a command of build.py imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
