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


def naming(copyright_file: str) -> list[dict[str, str]]:
    """Take the paragraphs of a machine-readable debian/copyright that name licences; any other text has none.

    https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
    """
    found = list(paragraphs(copyright_file))
    if not found or "copyright-format" not in found[0].get("format", ""):
        return []
    # A paragraph with neither field only gives the full text of a licence that another one names.
    return [fields for fields in found if "files" in fields or "format" in fields]


def shortened(copyright_file: str) -> str:
    """Leave of a debian/copyright what names licences, each once."""
    found = naming(copyright_file)
    names = dict.fromkeys(fields.get("license", "").split("\n")[0] for fields in found)
    rows = ["Format: " + " ".join(found[0]["format"].split())] if found else []
    return "\n\n".join([*rows, *(f"Files: *\nLicense: {name}" for name in names if name)])
