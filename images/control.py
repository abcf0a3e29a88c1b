"""Debian's control files: paragraphs of `Field: value`, as in dpkg's status and in debian/copyright."""

from __future__ import annotations

import re
from collections.abc import Iterator

FIELD = re.compile(r"([!-9;-~]+):[ \t]*(.*)")
BLANK = re.compile(r"\n[ \t\r]*\n")


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield each paragraph as field name in lower case -> value (deb-control(5)).

    A value keeps the newlines between its lines. A line that is neither a field nor the rest of one is skipped.
    """
    for block in BLANK.split(text):
        fields: dict[str, str] = {}
        name = None
        for line in block.split("\n"):
            if line.startswith((" ", "\t")):
                if name:
                    fields[name] += "\n" + line.strip()
            elif match := FIELD.match(line):
                name = match[1].lower()
                fields[name] = match[2].strip()
            else:
                name = None
        if fields:
            yield fields
