"""What of a text is shown in any message: one line, with nothing secret of the addresses in it."""

from __future__ import annotations

import re

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
