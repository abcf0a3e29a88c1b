"""Shared libraries that others wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import IO, Any, cast

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from images.host.limits import Bounded

MOST = 10_000  # entries that are read of one table: libc has 70, and a damaged count may say billions
MOST_READ = 64 << 20  # bytes that are read of a library: one name of megabytes may be that of every entry

# What pyelftools raises for damaged files besides its own errors; found by changing bytes at random.
BROKEN = (ELFError, AssertionError, AttributeError, LookupError, OSError, OverflowError, TypeError, ValueError)


def read_section(library: IO[bytes], name: str, read: Callable[[Any], Iterable[Any]]) -> list[Any]:
    """List the entries that `read` finds in the section of a name; a damaged file, or one without it, has none."""
    try:
        section = ELFFile(cast("IO[bytes]", Bounded(library, MOST_READ))).get_section_by_name(name)
        return list(islice(read(section), MOST)) if section else []
    except BROKEN:
        return []


def list_needed(library: IO[bytes]) -> list[str]:
    """Return the names of the libraries that one is linked to (DT_NEEDED)."""
    tags = read_section(library, ".dynamic", lambda section: section.iter_tags())
    return [str(tag.needed) for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
