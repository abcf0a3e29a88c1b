"""The least shared library that says what a test needs: System V gABI, chapters 4 and 5; LSB, symbol versions."""

from __future__ import annotations

import struct
from collections.abc import Sequence

DYNAMIC, STRINGS, VERSION_D, VERSION_R = 6, 3, 0x6FFFFFFD, 0x6FFFFFFE


def library(
    soname: str = "", *, links: Sequence[str] = (), needs: Sequence[str] = (), has: Sequence[str] = ()
) -> bytes:
    """Write an ELF file with a DT_SONAME, DT_NEEDED, symbol versions that it needs, and those that it has."""
    places, strings = {}, b"\0"
    for text in dict.fromkeys((soname, *links, *needs, *has)):
        places[text] = len(strings)
        strings += text.encode() + b"\0"
    tags = [(1, places[name]) for name in links]  # DT_NEEDED
    tags += [(14, places[soname])] if soname else []  # DT_SONAME
    dynamic = b"".join(struct.pack("<2Q", *tag) for tag in [*tags, (0, 0)])
    sections = [
        (".dynstr", STRINGS, strings, 0, 0),
        (".dynamic", DYNAMIC, dynamic, 0, 16),
        (".gnu.version_d", VERSION_D, _defined([places[name] for name in has]), len(has), 0),
        (".gnu.version_r", VERSION_R, _asked([places[name] for name in needs]), 1 if needs else 0, 0),
    ]
    return _file(sections)


def _defined(names: Sequence[int]) -> bytes:
    """Write Elf64_Verdef entries, each with one Elf64_Verdaux."""
    entry = [struct.pack("<4H3I", 1, 0, number, 1, 0, 20, 28) for number, _ in enumerate(names, 1)]
    return b"".join(head + struct.pack("<2I", name, 0) for head, name in zip(entry, names, strict=True))


def _asked(names: Sequence[int]) -> bytes:
    """Write one Elf64_Verneed with an Elf64_Vernaux for each version."""
    head = struct.pack("<2H3I", 1, len(names), 0, 16, 0)
    return head + b"".join(struct.pack("<I2H2I", 0, 0, 2, name, 16) for name in names)


def _file(sections: Sequence[tuple[str, int, bytes, int, int]]) -> bytes:
    """Write the header, the sections, their names and their table; section 1 has the strings of all others."""
    names, body, table = b"\0", b"", bytes(64)
    for name, kind, data, count, entry in (*sections, (".shstrtab", STRINGS, b"", 0, 0)):
        at = len(names)
        names += name.encode() + b"\0"
        data = data or (names if name == ".shstrtab" else b"")
        table += struct.pack("<2I4Q2I2Q", at, kind, 0, 0, 64 + len(body), len(data), 1, count, 1, entry)
        body += data
    magic = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    last = len(sections) + 1
    head = struct.pack("<2HI3QI6H", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, last + 1, last)
    return magic + head + body + table
