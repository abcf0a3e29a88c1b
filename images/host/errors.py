"""The two kinds of failure, and the three parts of their message."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from images.host.text import shortened, shown

LONGEST = 4000  # characters of a value, which may be a stranger's: a file may have megabytes in one word


class Fault(Exception):
    """A failure that the user can read: the fact, the value that caused it, what to type instead.

    `kind` is a word that callers may decide by; nobody decides by the text of a message.
    """

    exit_code = 1

    def __init__(self, fact: str, value: object, remedy: str, kind: str = "") -> None:
        self.fact, self.remedy, self.kind = shown(fact), shown(remedy), kind
        self.value = shortened(shown(str(value)), LONGEST)
        super().__init__(f"{self.fact}: {self.value}")

    def __str__(self) -> str:
        return f"error: {self.fact}: {self.value}\n  try: {self.remedy}"


class UserFault(Fault):
    """A mistake that the user can correct by typing something else; exit code 2."""

    exit_code = 2


class WorldFault(Fault):
    """A failure of the world outside: network, disk, engine; exit code 1."""


class Damaged(WorldFault):
    """A file of the store was found damaged and removed: the same command makes it or fetches it again."""

    def __init__(self, path: object) -> None:
        super().__init__("a file of the cache was damaged, and is removed", path, "the same command again")


USE = "chmod or chown it, so that you may use it; or name another one (of the cache: XDG_CACHE_HOME)"
ROOM = "make room there, in TMPDIR (default /tmp) too; or name another disk (of the cache: XDG_CACHE_HOME)"
READ = "a reader that reads to the end, or > FILE"
REMEDIES = {errno.EPIPE: READ} | dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), USE)
REMEDIES |= dict.fromkeys((errno.ENOSPC, errno.EDQUOT), ROOM)
# What the system says of a name that no file can have there, whatever is on the disk.
NAMES = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


def system_fault(error: OSError, unnamed: object = "stdout") -> Fault:
    """Return what the system says of a file, which is `unnamed` where it names none: UserFault for one of NAMES.

    Of a copy it is the second one that is written.
    """
    fact, value = error.strerror or "the system refuses", error.filename2 or error.filename or unnamed
    if error.errno in NAMES:
        return UserFault(fact, value, "the name of another file (of the cache: XDG_CACHE_HOME)")
    return WorldFault(fact, value, REMEDIES.get(error.errno or 0, "correct that and run it again"))


@contextmanager
def named(place: object) -> Iterator[None]:
    """Say of errors of the system that name no file, as those of writing, that they are of a place."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(place)
        raise


def require_text(value: str, called: str) -> None:
    """Raise UserFault for a value that is not UTF-8, or not read as that; `called` is what the message says of it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        remedy = "a name in UTF-8, such as that of a link (ln -s); or LC_ALL=C.UTF-8, if it is one"
        raise UserFault("that is not UTF-8", called, remedy) from error
