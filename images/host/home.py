"""The home directory of the user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the home directory: $HOME, else that of /etc/passwd, as with systemd and cron, else the root."""
    try:
        return Path(environ.get("HOME") or "~").expanduser()
    except RuntimeError:  # a user without an entry in /etc/passwd
        return Path("/")
