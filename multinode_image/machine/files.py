"""Files and directories: read what may be missing, write what nobody else may read, find programs."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import BinaryIO, Callable, NoReturn
from zlib import crc32

from multinode_image.errors import EXIT_OUTSIDE, Refusal

# Returns the text of a file; None if there is no such file.
Files = Callable[[str], "str | None"]
# Letters that are read of a file: more than any has that is meant, and a device may have no end.
MOST = 1 << 24
# A pipe or a device that is opened without O_NONBLOCK may wait for ever.
SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Where every user may write; what is ours there is in directories of our own.
TEMPORARY = "/tmp"
# What a terminal, an engine, a kubelet or a scheduler sends to end a process.
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
# A directory for each network interface of this container.
NETWORK = "/sys/class/net"


def read_text(path: str) -> str | None:
    """Return the text of a file; None if there is none, or if it may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MOST)
    except (OSError, ValueError):
        return None


def read_file(path: str) -> str | None:
    """Return the text of a regular file; a pipe can be read only once, by the program it is meant for."""
    return read_text(path) if os.path.isfile(path) else None


def open_plain(path: str, flags: int = SAFELY) -> BinaryIO | None:
    """Open a plain file to read it; None for anything else. Raise OSError where it cannot be opened.

    flags: without O_NOFOLLOW the last part of the path may be a link.
    """
    opened = os.open(path, os.O_RDONLY | flags)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return open(opened, "rb")
    os.close(opened)
    return None


def is_path(text: str) -> bool:
    """Return whether a text can be a path; JSON may have a NUL or half a letter in it."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def list_directory(path: str) -> list[str]:
    """List a directory in order; empty if there is none."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def can_write(path: str) -> bool:
    """Return whether a directory can be written, or made where it does not exist yet."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return os.path.isdir(path or ".") and os.access(path or ".", os.W_OK | os.X_OK)


def measure_file_system(path: str) -> tuple[int, int] | None:
    """Return the bytes of the file system at a path, and those free for a plain user; None if nothing is there."""
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    return status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail


def count_files(path: str) -> tuple[int, int]:
    """Return how many files the file system at a path may have (inodes), and how many more; 0 where it does not say."""
    try:
        status = os.statvfs(path)
    except OSError:
        return 0, 0
    return status.f_files, status.f_favail


def private_path(*names: str, uid: int | None = None) -> str:
    """Return a path below the private directory of a user, by default of this process."""
    return os.path.join(TEMPORARY, f"multinode-{os.getuid() if uid is None else uid}", *names)


def name_by_content(name: str, text: str, uid: int | None = None) -> str:
    """Return the path of a private file whose name says what is in it: all who write it write the same.

    Containers of other images may share the directory; none takes the place of what another goes on reading.
    """
    stem, suffix = os.path.splitext(name)
    return private_path(f"{stem}-{crc32(text.encode('utf-8', 'surrogateescape')):08x}{suffix}", uid=uid)


def make_private(directory: str, base: str = TEMPORARY) -> str:
    """Make a directory that nobody else may read or exchange, and return it.

    Everybody may write in `base`, so each directory below it is checked: another user who created one of them first
    could replace its content at any later time. Raises Refusal for a directory of another user.
    """
    path = base
    for name in PurePath(directory).relative_to(base).parts:
        path = os.path.join(path, name)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            status = os.lstat(path)
        except OSError as error:
            raise explain_private(path, error) from None
        if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
            remedy = f"remove it, or mount a tmpfs there (docker run --tmpfs {base})"
            raise Refusal(
                "a private directory belongs to somebody else", f"{path} of uid {status.st_uid}", remedy, EXIT_OUTSIDE
            )
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.chmod(path, 0o700)
    return path


@contextlib.contextmanager
def lend_private(name: str) -> Iterator[str]:
    """Lend a private directory of this process alone, and remove it with its files at the end.

    Containers of Apptainer and Charliecloud have the /tmp of their host, where several jobs of a user are at once. A
    signal that would end this process raises SystemExit in the meantime, so that no key is left.
    """
    directory = name_aside(private_path(name))
    before = {signum: signal.signal(signum, leave) for signum in ENDING if signal.getsignal(signum) == signal.SIG_DFL}
    try:
        yield make_private(directory)
    finally:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        for path in list_directory(directory):
            remove(os.path.join(directory, path))
        with contextlib.suppress(OSError):
            os.rmdir(directory)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for signum, handler in before.items():
            signal.signal(signum, handler)


def leave(number: int, _: object) -> NoReturn:
    """End this process for a signal, with the exit code of a shell."""
    raise SystemExit(128 + number)


def name_aside(path: str) -> str:
    """Return a name beside a path that no other process takes: containers that share a directory have equal numbers."""
    return f"{path}.{os.urandom(8).hex()}"


def remove(path: str) -> None:
    """Remove a file, if it is there and that is possible."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def write_private(path: str, text: str) -> str:
    """Write a file that nobody else may read; whole or not at all, because other ranks may write it too."""
    aside = name_aside(path)
    try:
        # A variable that goes into it may have bytes that are no text.
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        os.replace(aside, path)
    except OSError as error:
        remove(aside)
        raise explain_private(os.path.dirname(path), error) from None
    return path


def write_in_private(path: str, text: str, base: str = TEMPORARY) -> None:
    """Write a private file; create its directory if it is missing, which nobody else may read either."""
    make_private(os.path.dirname(path), base)
    write_private(path, text)


def explain_private(directory: str, error: OSError) -> Refusal:
    """Return why a private directory, or a file in it, could not be created."""
    above = os.path.dirname(directory)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = f"remove what is not needed there, or a larger tmpfs (docker run --tmpfs {above}:size=64m)"
        return Refusal("no space is left for private files", above, remedy, EXIT_OUTSIDE)
    remedy = f"mount a tmpfs there (docker run --tmpfs {above})"
    return Refusal("private files cannot be written", f"{directory}: {error.strerror}", remedy)


def which(word: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program as the shell finds it; None if there is none."""
    directories = [""] if "/" in word else environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(directory, word) for directory in directories)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)
