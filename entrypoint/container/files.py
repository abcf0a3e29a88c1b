"""Read what may be missing, and write only into folders that are ours."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from entrypoint.errors import WORLD, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_text(path: str) -> str | None:
    """Read a file; None if there is none, or if it may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def read_file(path: str) -> str | None:
    """Read a plain file, as read_text does; a pipe can be read only once, and that is for the program it is for."""
    return read_text(path) if os.path.isfile(path) else None


def can_write(path: str) -> bool:
    """Tell whether a folder can be written, or made where it does not exist yet."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return os.path.isdir(path or ".") and os.access(path or ".", os.W_OK | os.X_OK)


def file_system_size(path: str) -> int | None:
    """Give the bytes of the file system at a path; None if nothing is there."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_frsize * found.f_blocks


def make_private(folder: str) -> str:
    """Make a folder that nobody else may read, and refuse one that somebody else has put there."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError as error:
        remedy = f"mount a tmpfs there (docker run --tmpfs {os.path.dirname(folder)})"
        raise Refusal("a private folder cannot be made", f"{folder}: {error.strerror}", remedy, WORLD) from None
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise Refusal("a private folder belongs to somebody else", folder, f"remove {folder}", WORLD)
    if stat.S_IMODE(found.st_mode) != 0o700:
        os.chmod(folder, 0o700)
    return folder


def write_private(path: str, text: str) -> str:
    """Write a file that nobody else may read; whole or not at all, for other ranks may write it at the same time."""
    aside = f"{path}.{os.getpid()}"
    # A variable that goes into it may have bytes that are no text.
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    os.replace(aside, path)
    return path


def which(word: str, environ: Mapping[str, str]) -> str | None:
    """Find a program as the shell would."""
    folders = [""] if "/" in word else environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, word) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)
