"""Run a command, and begin each line that it prints with the seconds since the start: `python3 stamped.py COMMAND...`.

It runs with the image's Python; nothing of this repository is needed.
"""

from __future__ import annotations

import subprocess
import sys
import time


def main(command: list[str]) -> int:
    """Return the exit code of the command."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        for line in child.stdout:
            print(f"{time.monotonic() - began:.2f} {line}", end="", flush=True)
    return child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
