"""/etc/ld.so.cache as ldconfig of glibc 2.36 and 2.41 writes it.

Its form: sysdeps/generic/dl-cache.h, elf/cache.c and elf/stringtable.c of glibc.
"""

from __future__ import annotations

import io
import posixpath
import re
import struct
from collections import defaultdict

from images.dpkg.tree import FILE, PackageTree
from images.foreign import libraries
from images.platforms import Platform

ELF = b"\x7fELF"
BANNER = re.compile(rb"GNU C Library \((Debian GLIBC [^)]{1,80})\) ([a-z]{1,20} release version [0-9]+\.[0-9]+)")
MAGIC, EXTENSION, LITTLE = b"glibc-ld.so.cache1.1", 0xEAA42174, 2
HEAD, ROW = struct.Struct("<20sIIB3xI12x"), struct.Struct("<iIIIQ")

Library = tuple[str, str]  # name and path


def write_cache(tree: PackageTree, platform: Platform) -> None:
    """Write the cache, and the links by the names of libraries that are not there yet.

    Raises LookupError where there is no C library.
    """
    tree.file("etc/ld.so.cache", _rendered(_list_libraries(tree, platform), _generator(tree, platform), platform))


def _read_search_path(tree: PackageTree) -> list[str]:
    """Return where libraries are looked for, in order, each real directory once by its first name."""
    lines = [line.strip() for path in tree.below("etc/ld.so.conf.d") for line in tree.text(path).splitlines()]
    directories = [line for line in lines if line and not line.startswith("#")]
    real: dict[str, str] = {}
    for path in (*directories, "/lib", "/usr/lib"):
        real.setdefault(tree.real(path), path)
    return list(real.values())


def _list_libraries(tree: PackageTree, platform: Platform) -> list[Library]:
    inside: dict[str, list[str]] = defaultdict(list)
    for path in tree.entries:
        inside[posixpath.dirname(path)].append(path)
    libraries: dict[Library, None] = {}
    for shown in _read_search_path(tree):
        directory = tree.real(shown)
        for path in inside[directory]:
            if name := _find_name(tree, path, platform):
                if f"{directory}/{name}" not in tree.entries:
                    tree.link(f"{directory}/{name}", posixpath.basename(path))
                libraries[name, f"{shown}/{name}"] = None
    return list(libraries)


def _find_name(tree: PackageTree, path: str, platform: Platform) -> str | None:
    """Return the name that a library is found by, None for what is none of the image's machine."""
    name, real = posixpath.basename(path), tree.real(path)
    entry = tree.entries.get(real)
    if not name.startswith(("lib", "ld-")) or ".so" not in name or entry is None or entry.kind != FILE:
        return None
    data = entry.data
    if data[:4] != ELF or len(data) < 20 or int.from_bytes(data[18:20], "little") != platform.elf:
        return None
    tags = libraries.read_section(io.BytesIO(data), ".dynamic", lambda section: section.iter_tags())
    if not tags:
        return None
    soname = next((str(tag.soname) for tag in tags if tag.entry.d_tag == "DT_SONAME"), name)
    return name if "/" in soname else soname


def _generator(tree: PackageTree, platform: Platform) -> bytes:
    """Name the ldconfig that would have written the cache: that of the C library."""
    banner = BANNER.search(tree.entries[tree.real(f"lib/{platform.multiarch}/libc.so.6")].data)
    if banner is None:
        raise LookupError("no C library of Debian")
    return b"ldconfig (" + banner[1] + b") " + banner[2]


def _rendered(libraries: list[Library], generator: bytes, platform: Platform) -> bytes:
    rows = sorted(libraries, key=lambda row: _order(row[0]), reverse=True)
    start = HEAD.size + ROW.size * len(rows)
    texts, places, last = bytearray(), dict[str, int](), ""
    # A text that another one ends in is not written again.
    for text in sorted({text for row in libraries for text in row}, key=lambda text: text[::-1], reverse=True):
        if not last.endswith(text):
            last, begin = text, start + len(texts)
            texts += text.encode() + b"\0"
        places[text] = begin + len(last) - len(text)
    end = start + len(texts)
    extension = -(-end // 4) * 4
    out = HEAD.pack(MAGIC, len(rows), len(texts), LITTLE, extension)
    out += b"".join(ROW.pack(platform.cache_flags, places[name], places[path], 0, 0) for name, path in rows)
    out += bytes(texts) + bytes(extension - end)
    return out + struct.pack("<6I", EXTENSION, 1, 0, 0, extension + 24, len(generator)) + generator


def _order(name: str) -> list[tuple[bool, int]]:
    """Return what glibc's _dl_cache_libcmp compares of a name: characters, and after all of them numbers."""
    parts = re.findall(r"[0-9]+|[^0-9]", name)
    return [(part.isdigit(), int(part) if part.isdigit() else ord(part)) for part in parts]
