"""A directory of ours on a volume that other users may write to: no link is followed, and only plain files are opened.

One job at a time has it, by a lock of fcntl(2): the kernel drops the lock when its process ends, however that ends, and
keeps it while the process becomes another program. Its children do not have it, and nothing has to be renewed. What
that cannot see: a file system that has no locks (a note says so) or keeps them to one machine, as NFS mounted with
`nolock` or `local_lock`, Lustre with `localflock`, SMB with `nobrl`, and most that show an object store; and a program
that opens the file of the lock itself, which frees it. A server of NFS 4 frees it 90 seconds after its machine is gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
from dataclasses import dataclass

from multinode_image.errors import EXIT_OUTSIDE, LATER, Refusal
from multinode_image.machine.files import MOST, SAFELY, name_aside, remove

LOCK = "lock"
# Seconds between two tries for a lock, and after which a server of locks that does not answer counts as none.
PAUSE, SILENT = 0.5, 20.0


class Busy(Refusal):
    """Another job has the directory."""


@dataclass(frozen=True)
class Shared:
    """Our directory."""

    path: str

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if there is none. Raise Refusal for what is no plain file."""
        try:
            opened = self._open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with open(opened, encoding="utf-8", errors="replace") as file:
            return file.read(MOST)

    def write(self, name: str, text: str, written: int = 0) -> None:
        """Replace a file: who opens it finds the whole old text or the whole new one.

        written: its time in nanoseconds; by default that of the file system, as of whatever else is written there.
        """
        aside = name_aside(name)
        with open(self._open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
                if written:
                    with contextlib.suppress(OSError):  # not every file system keeps a time that it is given
                        os.utime(file.fileno(), ns=(written, written))
                os.replace(f"{self.path}/{aside}", f"{self.path}/{name}")
            except OSError:
                remove(f"{self.path}/{aside}")
                raise

    def lock(self, seconds: float) -> int | None:
        """Take the lock for this process and the program that it becomes; return the descriptor that holds it.

        None where the file system has no locks. Raise Busy where another job has it.
        """
        opened = self._open(LOCK, os.O_RDWR | os.O_CREAT)
        end = time.monotonic() + seconds
        while (taken := try_lock(opened)) is False and time.monotonic() < end:
            time.sleep(PAUSE)
        if taken:
            os.ftruncate(opened, 0)
            os.pwrite(opened, os.uname().nodename.encode(), 0)
            os.set_inheritable(opened, True)
            return opened
        other = os.pread(opened, 255, 0).decode(errors="replace") or "an unknown host"
        os.close(opened)
        if taken is None:
            return None
        remedy = "another directory for this job, or wait until that one has ended"
        raise Busy("another job writes to the directory for results", f"{self.path}: a job on {other}", remedy, LATER)

    def _open(self, name: str, flags: int) -> int:
        """Open a plain file; raise Refusal for anything else that is there."""
        path = f"{self.path}/{name}"
        try:
            opened = os.open(path, flags | SAFELY, 0o664)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise explain_foreign(path) from None
            raise
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            os.close(opened)
            raise explain_foreign(path)
        if status.st_uid == os.getuid() and flags & os.O_CREAT:
            os.fchmod(opened, 0o664)  # whatever the umask: the next job may have another uid of this group
        return opened


def try_lock(opened: int) -> bool | None:
    """Return whether the lock of a file is ours now; None where there are no locks, or where nobody answers for them.

    A machine whose server of locks cannot be reached waits for ever (NFS 3), so another thread asks.
    """
    answers: list[bool | None] = []

    def ask() -> None:
        try:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            answers.append(True)
        except OSError as error:
            answers.append(False if error.errno in (errno.EAGAIN, errno.EACCES) else None)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SILENT)
    return answers[0] if answers else None


def open_shared(path: str) -> Shared | None:
    """Return our directory; None if it is not there."""
    try:
        see_ours(path)
    except (FileNotFoundError, PermissionError):
        return None
    return Shared(path)


def make_shared(path: str) -> Shared:
    """Return our directory; create it if it is missing, writable for the group whatever the umask is."""
    with contextlib.suppress(FileExistsError):
        os.makedirs(path)
    shared = see_ours(path)
    if shared.st_uid == os.getuid():  # the bit by which files get the group of a volume stays
        os.chmod(path, stat.S_IMODE(shared.st_mode) | 0o775)
    return Shared(path)


def see_ours(path: str) -> os.stat_result:
    """Return the status of our directory; raise Refusal for a link, or whatever else is in its place."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise explain_foreign(path)
    return status


def explain_foreign(path: str) -> Refusal:
    """Return the error of something in the place of what is ours, as only somebody makes it who means harm."""
    fact = "what should be ours is a link, a pipe or a device"
    return Refusal(fact, path, f"rm -r {path}, or another directory for results", EXIT_OUTSIDE)
