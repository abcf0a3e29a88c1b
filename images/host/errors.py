"""The two kinds of failure, the three parts of their message, and what of a text is shown in any message.

Strangers write such texts, and as long as they like: each step here takes time by their length, never by its square.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

# The beginning of an address, which a path may have with one slash; what a remedy says of a login is none.
_START = r"(?:(?<=[A-Za-z0-9+.-])://|(?<=http):/|(?<=https):/)(?!USER:PASSWORD@HOST\b)"
_PASSWORD = re.compile(rf"{_START}(?=[^\s/@:]*:(?![0-9]+/))")  # before a user and a password, not a host and its port
_USER = re.compile(rf"({_START})[^\s/?#@]*@")
_ADDRESS = re.compile(rf"""({_START}[^\s'"<>`?#]*)(?:[?#][^\s'"<>`]*)?""")  # with query and fragment
# A user and a password whose address has no scheme, before an @.
_LOGIN = re.compile(r"(?:^|(?<=[(,=]))(?!(?:oci|archive):|USER:PASSWORD$)[^:(,=]*:.+", re.DOTALL)
_QUERY = re.compile(r"\?[A-Za-z0-9_.~-]+=\S*")


def shown(text: str) -> str:
    """Return a text as it may be printed: of addresses neither user, password nor query (which may be a signature).

    Control characters, and bytes that are no text, are written as Python writes them: a message has one line.
    """
    text = re.sub(r"\S+", lambda word: _without_secrets(word[0]), text)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _without_secrets(word: str) -> str:
    head, at, tail = word.rpartition("@")  # a password may have a slash or an @ in it
    if at and (password := _PASSWORD.search(word)) and password.end() < len(head):
        word = word[: password.end()] + tail
    word = _ADDRESS.sub(r"\1", _USER.sub(r"\1", word))
    parts = word.split("@")
    pairs = enumerate(pairwise(parts))
    return _QUERY.sub("", "".join(_without_login(part, after, number) for number, (part, after) in pairs) + parts[-1])


def _without_login(part: str, after: str, number: int) -> str:
    """Return a part of a word that an @ ends, without a login at its end; a digest after a tag's @ is no host."""
    start = 1 + max(map(part.rfind, "/'\""))
    inside = part[start - 1 : start] == "/" or bool(number and not start)  # of a path, or after another @
    login = None if after.startswith("sha256:") else _LOGIN.search(part[start:], inside)
    return part[: start + login.start()] if login else f"{part}@"


def shortened(text: str, most: int = 300) -> str:
    """Return a text of at most so many characters: of a longer one its beginning and its end."""
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


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
