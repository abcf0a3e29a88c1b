"""The home directory of the user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def home_of(environ: Mapping[str, str]) -> Path | None:
    """Return the home directory: $HOME, else that of /etc/passwd, as with systemd and cron; None without either."""
    try:
        return Path(environ.get("HOME") or "~").expanduser()
    except RuntimeError:  # a user without an entry in /etc/passwd
        return None
