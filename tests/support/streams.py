"""Streams that cannot be written to their end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO


def full() -> TextIO:
    """Return a stream to a full disk."""
    return Path("/dev/full").open("w")


def unread() -> TextIO:
    """Return a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")
