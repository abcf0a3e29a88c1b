"""What a shared library says of itself: its own name, the symbol versions it needs and those it has (ELF, gABI)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from packaging.version import Version

MOST = 10_000  # entries that are read of one table: libc has 70, and a damaged count may say billions

# What pyelftools raises for damaged files besides its own errors; found by changing bytes at random.
DAMAGED = (ELFError, AssertionError, AttributeError, LookupError, OSError, OverflowError, TypeError, ValueError)


def soname(library: bytes) -> str | None:
    """Return the name that the loader knows a library by (DT_SONAME); None if it has none or is no ELF file."""
    tags = _read(library, ".dynamic", lambda section: section.iter_tags("DT_SONAME"))
    return next((str(tag.soname) for tag in tags), None)


def needed(library: bytes, prefix: str) -> Version:
    """Return the newest symbol version `<prefix>_N.N` that a library asks of others; 0 if it asks for none."""
    return _newest(_read(library, ".gnu.version_r", _names), prefix) or Version("0")


def provided(library: bytes, prefix: str) -> Version | None:
    """Return the newest symbol version `<prefix>_N.N` that a library has; None if it has none or is no ELF file."""
    return _newest(_read(library, ".gnu.version_d", _names), prefix)


def _read(library: bytes, name: str, entries: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """List the entries of a section; a damaged file has none."""
    try:
        section = ELFFile(io.BytesIO(library)).get_section_by_name(name)
        return list(islice(entries(section), MOST)) if section else []
    except DAMAGED:
        return []


def _names(section: Any) -> Iterable[str]:
    return (str(part.name) for _, parts in section.iter_versions() for part in parts)


def _newest(names: Sequence[str], prefix: str) -> Version | None:
    """Compare what is a version; others, such as GLIBCXX_TUNABLES or GLIBC_PRIVATE, are names only."""
    matches = (re.fullmatch(rf"{prefix}_([0-9]+(?:\.[0-9]+)+)", name, re.ASCII) for name in names)
    return max((Version(match[1]) for match in matches if match), default=None)
