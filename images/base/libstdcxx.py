"""The C++ library by its symbol versions, as the dynamic loader compares them: GLIBCXX_3.4.N."""

from __future__ import annotations

import re

from packaging.version import Version

FILE = re.compile(r"(.*/)?libstdc\+\+\.so\.6[0-9.]*$")
# Names of symbol versions stand in .dynstr between zero bytes (LSB Core, "Symbol Versioning").
VERSION = re.compile(rb"(?<=\0)GLIBCXX_(3\.4(?:\.[0-9]+)?)(?=\0)")

# The newest that a wheel may ask for, from each glibc of its manylinux tag on: pypa/auditwheel 6.8.2,
# policy/manylinux-policy.json, x86_64.
ALLOWED = (
    ("2.5", "3.4.8"),
    ("2.12", "3.4.13"),
    ("2.17", "3.4.19"),
    ("2.24", "3.4.22"),
    ("2.27", "3.4.24"),
    ("2.31", "3.4.28"),
    ("2.34", "3.4.29"),
    ("2.35", "3.4.30"),
    ("2.39", "3.4.33"),
)


def newest(library: bytes) -> str | None:
    """Answer the newest symbol version that a libstdc++ has."""
    return max((found.decode() for found in VERSION.findall(library)), key=Version, default=None)


def needed(glibc: str) -> str:
    """Answer the newest symbol version that wheels for a glibc may ask for."""
    fitting = (symbols for since, symbols in ALLOWED if Version(since) <= Version(glibc))
    return max(fitting, key=Version, default=ALLOWED[0][1])
