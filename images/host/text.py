"""What of a text is shown in any message: one line, with nothing secret of the addresses in it.

Strangers write such texts, and as long as they like: each step here takes time by their length, never by its square.
"""

from __future__ import annotations

import re
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
