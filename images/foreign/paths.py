"""Paths that others wrote: what keeps one out of a layer, and what marks of layers and of links mean."""

from __future__ import annotations

import re

from images.foreign.tars import DEEPEST, LONGEST, LONGEST_PART

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


def flaw(path: str) -> str | None:
    """Return what keeps a path out of a layer, in words that go after it; None for a good one."""
    if len(path) <= LONGEST_PART and PLAIN.fullmatch(path):
        return None
    for pattern, words in FLAWS:
        if re.search(pattern, path):
            return words
    if len(path.encode()) > LONGEST or any(len(part.encode()) > LONGEST_PART for part in path.split("/")):
        return "is too long"
    return f"has more than {DEEPEST} directories" if path.count("/") > DEEPEST else None
