"""Files of this machine: written whole or not there, those that have an end, and the user's home directory."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from images.host.errors import UserFault, named


def why_shared(directory: Path, *, is_closed: bool = False) -> str | None:
    """Return why a directory is not this user's alone; in one that `is_closed` to others its mode says nothing."""
    status = directory.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "a link"
    if status.st_uid != os.geteuid():
        return f"its owner is uid {status.st_uid}"
    is_open = status.st_mode & 0o022 and not is_closed
    return f"others may write to it, mode {stat.S_IMODE(status.st_mode):o}" if is_open else None


def stat_user_file(path: Path) -> os.stat_result | None:
    """Return what is known of a file of this user's; None for what is none, a link or somebody else's."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() else None


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """Yield a path of this process alone; what is written there takes the place when it is whole, else it is removed.

    It may be a file or a directory.
    """
    with named(place):
        temporary = TemporaryDirectory(dir=place.parent, prefix=f".{place.name}.", ignore_cleanup_errors=True)
        with temporary as directory:
            aside = Path(directory, "written")
            yield aside
            aside.replace(place)


def write_whole(place: Path, data: bytes) -> None:
    """Write a file; what was there stays as it was until the new one is whole, and a link stays a link.

    Raises OSError when it cannot be written.
    """
    if place.exists() and not place.is_file():  # a device or a pipe, such as /dev/stdout, has to stay what it is
        with named(place):
            place.write_bytes(data)
        return
    with replacing(Path(os.path.realpath(place))) as aside:
        aside.write_bytes(data)


def hard_link(source: Path, place: Path) -> None:
    """Make a hard link to a file, or a copy of it where there can be no link."""
    try:
        os.link(source, place)
    except OSError:  # another disk, another user's file (fs.protected_hardlinks), a file system without links
        shutil.copyfile(source, place)


def require_writable(directory: Path) -> None:
    """Raise UserFault for a directory in which nothing can be written: that is said before the work."""
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UserFault("nothing can be written there", directory, "--output in a directory that you may write to")


OF_SYSTEM = ("/proc/", "/sys/")  # a log of the kernel is a file of no bytes whose reader waits


def is_plain(path: Path) -> bool:
    """Return whether a path leads to a file on a disk, as far as this user can see."""
    return path.is_file() and not os.path.realpath(path).startswith(OF_SYSTEM)


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the home directory: $HOME, else that of /etc/passwd, as with systemd and cron, else the root."""
    try:
        return Path(environ.get("HOME") or "~").expanduser()
    except RuntimeError:  # a user without an entry in /etc/passwd
        return Path("/")
