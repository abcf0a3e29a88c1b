#!/usr/bin/env python3
"""Print a manifest for `kubectl apply -f -`: a job of Kubeflow's operators, its storage, what fetches models once."""

from __future__ import annotations

import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from images import startup

if __name__ == "__main__":
    startup.end_at_interrupt()

try:
    from manifests import cli
except ModuleNotFoundError as missing:
    sys.exit(f"error: a Python package is missing: {missing.name}\n  try: pip install -e . (in a virtual environment)")

if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # None where it is closed
        sys.stdout.reconfigure(encoding="utf-8")  # as kubectl reads it, whatever the terminal has
    sys.exit(cli.main(sys.argv[1:], sys.stdout, sys.stderr))
