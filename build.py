#!/usr/bin/env python3
"""Build a version-pinned, reproducible image for training Hugging Face models on CPU servers."""

from __future__ import annotations

import datetime
import gc
import io
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # python -I and PYTHONSAFEPATH leave it out

from images import startup

if __name__ == "__main__":
    startup.end_at_interrupt()

gc.set_threshold(100_000)  # what is imported and read stays to the end: a collection would free nothing of it

try:
    from images import cli
    from images.host import process
except Exception as error:
    if (fault := startup.explain_import(error, os.environ)) is None:
        raise
    sys.exit(str(fault))

if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale may have ASCII only
    startup.raise_interrupts()
    process.end_as_interrupted()
    if os.environ.get("COLUMNS") == "0":  # in which rich prints nothing; others ask the terminal
        del os.environ["COLUMNS"]
    today = datetime.datetime.now(datetime.timezone.utc).date()
    code = cli.main(sys.argv[1:], cli.World(os.environ, today, time.monotonic))
    gc.freeze()  # the memory goes with the process: a last collection takes as long as a short command
    sys.exit(code)
