"""The home directory of the user, and what a ~ of pip's configuration stands for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the home directory: $HOME, else that of /etc/passwd, as with systemd and cron; / where nobody has one."""
    try:
        return Path(environ.get("HOME") or "~").expanduser()
    except RuntimeError:  # a user without an entry in /etc/passwd, who has no files of pip's
        return Path("/")


def at_home(path: str, home: Path) -> str:
    """Return a path with the home directory for its ~."""
    return str(home / path[2:]) if path.startswith("~/") else path


def expanded(link: str, home: Path) -> str:
    """Return a link as pip takes it: ~ is the home directory, if that path is there."""
    path = at_home(link, home)
    return path if path != link and Path(path).exists() else link
