"""Files that have an end: a log of the kernel is a file of no bytes whose reader waits."""

from __future__ import annotations

import os
from pathlib import Path

OF_SYSTEM = ("/proc/", "/sys/")


def is_plain(path: Path) -> bool:
    """Return whether a path leads to a file on a disk, as far as this user can see."""
    return path.is_file() and not os.path.realpath(path).startswith(OF_SYSTEM)
