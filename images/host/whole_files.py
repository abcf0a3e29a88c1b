"""Files that are whole or not there: written aside under a name that no other process has, then moved into place."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from images.host.errors import named

HELD, NEW = "held", ".new-"  # the lock of a directory; the beginning of the name of one that has no lock yet
WRITTEN = "written"  # what is written aside, in a directory of its own
# What link(2) says of another user's file (fs.protected_hardlinks), of one on another disk, of one with too many links,
# and on disks that have no links (CIFS, some of FUSE).
NO_LINK = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def own_directory(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Make a directory that counts as left behind as soon as this process is gone, even in another container."""
    new = Path(tempfile.mkdtemp(prefix=NEW, dir=parent))
    own = parent / (prefix + new.name.removeprefix(NEW))
    try:
        with (new / HELD).open("w") as file:
            with suppress(OSError):  # some shared file systems have no locks: there nothing counts as left behind
                fcntl.flock(file, fcntl.LOCK_EX)
            new.rename(own)  # with its lock: nobody sees it without
            yield own
    finally:
        shutil.rmtree(own if own.exists() else new, ignore_errors=True)


def remove_if_left(own: Path) -> None:
    """Remove such a directory of this user if nobody holds it; follow no link, and make nothing."""
    with suppress(OSError):
        if foreign(own):
            return
        try:
            held = os.open(own / HELD, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:  # where a removal was interrupted
            shutil.rmtree(own, ignore_errors=True)
            return
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(own, ignore_errors=True)
        finally:
            os.close(held)


def foreign(directory: Path, *, is_closed: bool = False) -> str | None:
    """Return why a directory is not this user's alone; in one that `is_closed` to others its mode says nothing."""
    found = directory.lstat()
    if stat.S_ISLNK(found.st_mode):
        return "a link"
    if found.st_uid != os.geteuid():
        return f"its owner is uid {found.st_uid}"
    is_open = found.st_mode & 0o022 and not is_closed
    return f"others may write to it, mode {stat.S_IMODE(found.st_mode):o}" if is_open else None


def own_file(path: Path) -> os.stat_result | None:
    """Return what is known of a file of this user's; None for what is none, a link or somebody else's."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() else None


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """Yield a path of this process alone; what is written there takes the place when it is whole, else it is removed.

    It may be a file or a directory. What a killed process has left of the same place is removed first.
    """
    own_name = f".{place.name}."
    for left in place.parent.glob(glob.escape(own_name) + "?" * 8):
        if any((left / name).exists() for name in (HELD, WRITTEN)):  # else it is somebody else's
            remove_if_left(left)
    with named(place), own_directory(place.parent, own_name) as own:
        yield own / WRITTEN
        (own / WRITTEN).replace(place)


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


def link(source: Path, place: Path) -> None:
    """Make a hard link to a file, or a copy of it where there can be no link."""
    try:
        os.link(source, place)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        shutil.copyfile(source, place)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file alone, by flock(2); who held it before may have removed it, then it is made anew.

    Where the file system has no locks nobody waits: what is done twice at once is written aside, and kept once.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("ab") as file:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file.fileno()):
                yield
                return


def _is_at(path: Path, opened: int) -> bool:
    """Return whether the file that is open is the one at a path, and not one that was removed there."""
    try:
        return os.path.samestat(path.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False
