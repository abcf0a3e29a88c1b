"""The two kinds of failure, the three parts of their message, and what of an address is shown in any message."""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

# A user and a password before the host of an address (which a path may have with one slash), also a password with a
# slash in it; then path, query, fragment. What a remedy says of a login is none.
_ADDRESS = re.compile(
    r"""((?:[A-Za-z][A-Za-z0-9+.-]*:/|https?:)/)(?!USER:PASSWORD@HOST\b)(?:[^\s/@:]*:(?![0-9]+/)\S*@|[^\s/?#@]*@)?([^\s'"<>`?#]*)(?:[?#][^\s'"<>`]*)?"""
)
# The same where the scheme is left out; a digest after the tag of an image is no host.
_LOGIN = re.compile(r"""(?<![^\s'"(,=])(?!oci:|archive:|USER:PASSWORD@HOST\b)[^\s/@:'"]+:[^\s/@'"]+@(?!sha256:)""")
_QUERY = re.compile(r"\?[A-Za-z0-9_.~-]+=\S*")


def shown(text: str) -> str:
    """Return a text as it may be printed: of addresses neither user, password nor query (which may be a signature).

    Control characters, and bytes that are no text, are written as Python writes them: a message has one line.
    """
    text = _QUERY.sub("", _LOGIN.sub("", _ADDRESS.sub(r"\1\2", text)))
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shortened(text: str, most: int = 300) -> str:
    """Return a text of at most so many characters: of a longer one its beginning and its end."""
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


class Fault(Exception):
    """A failure that the user can read: the fact, the value that caused it, what to type instead.

    `kind` is a word that callers may decide by; nobody decides by the text of a message.
    """

    exit_code = 1

    def __init__(self, fact: str, value: object, remedy: str, kind: str = "") -> None:
        self.fact, self.value, self.remedy, self.kind = shown(fact), shown(str(value)), shown(remedy), kind
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


class Unwritable(WorldFault):
    """The disk of the store is full, or takes nothing: no other source of a file helps."""


def require_text(value: str, called: str) -> None:
    """Raise UserFault for a value that is not UTF-8, or not read as that; `called` is what the message says of it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        if _is_utf8(value):
            read = f"{os.fsencode(called).decode(errors='replace')} (read as {sys.getfilesystemencoding()})"
            raise UserFault("the locale has no UTF-8", read, "unset PYTHONUTF8, or LC_ALL=C.UTF-8") from error
        raise UserFault("that is not UTF-8", called, "a name in UTF-8, such as that of a link (ln -s)") from error


def _is_utf8(value: str) -> bool:
    """Return whether the bytes that a value was read from are UTF-8."""
    try:
        os.fsencode(value).decode()
    except UnicodeError:
        return False
    return True


ROOM = 1 << 16  # bytes
MAKE_USABLE = "chmod or chown it, so that you may use it; or name another one"
ELSEWHERE = "set XDG_CACHE_HOME to a directory"
MAY_WRITE = f"{ELSEWHERE} that you may write to"
REMEDIES = dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), MAY_WRITE)
REMEDIES |= dict.fromkeys((errno.ENOSPC, errno.EDQUOT), f"make room there, or {ELSEWHERE} on a larger disk")


def disk_fault(root: Path, error: OSError) -> Unwritable:
    """Return the fault of a store whose disk refuses."""
    said = os.strerror(error.errno or 0)
    return Unwritable("cannot write to the store", f"{root} ({said})", REMEDIES.get(error.errno or 0, MAY_WRITE))


@contextmanager
def or_else(way: str) -> Iterator[None]:
    """Add another way to the remedy of a fault, where its caller knows one that does not always work."""
    try:
        yield
    except Fault as fault:
        fault.remedy = shown(f"{fault.remedy}; or {way}")
        raise


@contextmanager
def store_faults(root: Path) -> Iterator[None]:
    """Turn the errors of a full or read-only disk into faults of the store, but for those of files elsewhere."""
    try:
        yield
    except OSError as error:
        if error.errno not in REMEDIES or _is_elsewhere(error, root):
            raise
        raise disk_fault(root, error) from error


def require_room(root: Path) -> None:
    """Raise WorldFault when the disk of a store is full: apt, for one, would wait for ever without a message."""
    disk = os.statvfs(root)
    if disk.f_blocks and disk.f_bfree * disk.f_frsize < ROOM:
        raise disk_fault(root, OSError(errno.ENOSPC, "full"))


def require_programs(directory: Path, called: str, remedy: str) -> None:
    """Raise WorldFault where the disk of a directory is mounted noexec; `called` is what the message says of it."""
    if os.statvfs(directory).f_flag & os.ST_NOEXEC:
        raise WorldFault(f"programs cannot be started in {called}", f"{directory} (noexec)", remedy)


def _is_elsewhere(error: OSError, root: Path) -> bool:
    names = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if not isinstance(name, int | None)]
    return bool(names) and not any(name.absolute().is_relative_to(root.absolute()) for name in names)


class Parser(argparse.ArgumentParser):
    """argparse with errors in three parts."""

    def error(self, message: str) -> NoReturn:
        raise UserFault("cannot read the command line", message, f"{self.prog} --help")
