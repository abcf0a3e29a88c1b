"""Paths that others wrote: what keeps one out of a layer, and what marks of layers and of links mean."""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Any, NamedTuple

# Bytes of a name, which is NAME_MAX of Linux, and of a path, for which PATH_MAX leaves room below a store of any place.
LONGEST_PART, LONGEST = 255, 3000
DEEPEST = 200  # directories in a path: to remove a tree that is much deeper, Python runs out of stack
# OCI image specification 1.1, "Image Layer Filesystem Changeset", whiteouts.
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
HOPS = 40  # links in one path before it counts as a circle: path_resolution(7)
# What a path in a layer must not have, and words that go after the path.
FLAWS = (
    (r"\A\Z", "is empty"),
    (r"\A/", "is absolute"),
    (r"(?:\A|/)\.\.(?:/|\Z)", "leaves its directory"),
    (r"(?:\A|/)\.?(?:/|\Z)", "has an empty part or a `.`"),
    (rf"(?:\A|/){re.escape(WHITEOUT)}", "would hide a file of a lower layer"),
    (r"[\x00-\x1f\x7f]", "has a control character"),
    (r"[\ud800-\udfff]", "is not UTF-8"),
)
# Most paths, of which there are many: parts of ASCII, none with a dot in front.
PLAIN = re.compile(r"[!-\-0-~][ -.0-~]*(/[!-\-0-~][ -.0-~]*)*")


def find_flaw(path: str) -> str | None:
    """Return what keeps a path out of a layer, in words that go after it; None for a good one."""
    if len(path) <= LONGEST_PART and PLAIN.fullmatch(path):
        return None
    return next((words for pattern, words in FLAWS if re.search(pattern, path)), None) or find_excess(path)


def find_excess(path: str) -> str | None:
    """Return what is too much of a path for a file system, in words that go after it."""
    encoded = path.encode(errors="replace")
    if len(encoded) > LONGEST or any(len(part) > LONGEST_PART for part in encoded.split(b"/")):
        return "is too long"
    return f"has more than {DEEPEST} directories" if path.count("/") > DEEPEST else None


def below_root(path: str) -> str:
    """Return a path as seen from the root, which `..` does not leave, without the slash in front."""
    return posixpath.normpath(f"/{path}").lstrip("/")


# Words that others wrote, by their grammars: what becomes a word on a command line, a path or a line of configuration.
#
# A lock is held to them where it is read: a word that begins with a hyphen would be an option of uv.


class Grammar(NamedTuple):
    """What a word is, as pydantic is told where it reads one: whoever only names the word does without pydantic."""

    pattern: str
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> Any:
        from pydantic_core.core_schema import str_schema

        return str_schema(pattern=self.pattern, max_length=self.most)


Release = Annotated[str, Grammar(r"\A[0-9][0-9A-Za-z.+!-]*\z", most=100)]
Minor = Annotated[str, Grammar(r"\A[0-9]{1,2}\.[0-9]{1,2}\z")]  # tags of wheels are counted up to it
Word = Annotated[str, Grammar(r"\A[a-z0-9][a-z0-9_.+-]*\z")]
Module = Annotated[str, Grammar(r"\A[A-Za-z_][A-Za-z0-9_]*\z")]
Address = Annotated[str, Grammar(r"\Ahttps://[^\s\x00-\x1f]+\z")]
Line = Annotated[str, Grammar(r"\A[^\x00-\x1f]*\z")]
Backend = Annotated[str, Grammar(r"\A(ccl|gloo)\z")]
