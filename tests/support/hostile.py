"""Files as an attacker writes them, for property tests; and a watch over what is touched and used while they are read.

A tar is put together from raw headers, so that its numbers, types and names are whatever they are, and its checksums
are right: a reader gets beyond them.
"""

from __future__ import annotations

import os
import signal
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from hypothesis import currently_in_test_context
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

MOST_MEMORY, MOST_TIME = 16 << 20, 60  # bytes and seconds, for files of a few kilobytes
EXAMPLES = count()
BLOCK = 512

Change = tuple[int, int]  # a position, counted around the end, and the byte that goes there


@contextmanager
def watched(directory: Path, memory: int = MOST_MEMORY) -> Iterator[Path]:
    """Lend a new directory; whoever uses it touches nothing beside it, and has so much memory and time.

    Of the examples of a property every third is measured, which takes as long as the rest of it.
    """
    measured = not currently_in_test_context() or next(EXAMPLES) % 3 == 0
    (directory / "beside").mkdir(exist_ok=True)
    (directory / "beside/precious").write_bytes(b"precious")
    before = listing(directory)
    old = signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(MOST_TIME)
    if measured:
        tracemalloc.start()
    try:
        with tempfile.TemporaryDirectory(prefix="scratch", dir=directory) as scratch:
            yield Path(scratch)
            assert not measured or tracemalloc.get_traced_memory()[1] < memory
    finally:
        tracemalloc.stop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
    assert listing(directory) == before


def _give_up(*_: object) -> None:
    raise TimeoutError(f"no answer within {MOST_TIME} s")


def listing(directory: Path) -> dict[str, object]:
    """List every file outside of the directory that was lent, and the names of what surrounds both."""
    places = [*directory.iterdir(), *(directory / "beside").rglob("*")]
    listed = {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in places if path.name != "scratch"}
    return {**listed, "around": {entry.name for entry in os.scandir(directory.parent)}}


def changed(data: bytes, at: list[Change]) -> bytes:
    """Return data with some of its bytes changed."""
    out = bytearray(data)
    for position, value in at:
        out[position % len(out)] = value
    return bytes(out)


changes = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=6)


def header(
    name: bytes, kind: bytes = b"0", link: bytes = b"", *, size: bytes = b"0", mode: bytes = b"644",
    time: bytes = b"0", prefix: bytes = b"", magic: bytes = b"ustar\00000", device: bytes = bytes(16),
) -> bytes:  # fmt: skip
    """Write a header of a tar with a right checksum and whatever else (POSIX.1-2001, ustar)."""
    head = b"".join([
        name[:100].ljust(100, b"\0"), mode[:8].ljust(8, b"\0"), bytes(16), size[:12].ljust(12, b"\0"),
        time[:12].ljust(12, b"\0"), b" " * 8, kind, link[:100].ljust(100, b"\0"), magic, bytes(64),
        device, prefix[:155],
    ]).ljust(BLOCK, b"\0")  # fmt: skip
    return head[:148] + b"%06o\0 " % sum(head) + head[156:]


def entry(name: bytes, data: bytes = b"", kind: bytes = b"0", link: bytes = b"", **fields: bytes) -> bytes:
    """Write a member of a tar: its header, and its content in whole blocks."""
    return header(name, kind, link, **{"size": b"%o" % len(data), **fields}) + data + bytes(-len(data) % BLOCK)


def pax(key: bytes, value: bytes) -> bytes:
    """Write a record of an extended header (POSIX.1-2001, pax)."""
    rest = b" " + key + b"=" + value + b"\n"
    size = len(rest) + 1
    while size != len(rest) + len(b"%d" % size):
        size += 1
    return b"%d" % size + rest


def named(name: bytes, data: bytes = b"", kind: bytes = b"0", link: bytes = b"") -> bytes:
    """Write a member whose name and link may be of any length."""
    records = pax(b"path", name) + (pax(b"linkpath", link) if link else b"")
    return entry(b"x", records, b"x") + entry(name, data, kind, link)


END = bytes(2 * BLOCK)
# Plain files most often, and a type that no tar has.
KINDS = [bytes([kind]) for kind in b"000521\0003467SLKxgXV?"]
PARTS = [
    b"..", b".", b"", b"a", b"b", b"usr", b"lib", b"bin", b"sh", b"etc", b"var", b"local", b"\xff", "\u00fc".encode(),
    b"\n", b"x" * 300, b".wh.a", b".wh.", b".wh..", b".wh...", b".wh..wh..opq", b".wh.usr",
    b"python3.10", b"dist-packages",
    b"thing-1.0.dist-info", b"thing-1\xff.dist-info", b"thing-1.0!.egg-info", b"RECORD", b"PKG-INFO", b"__pycache__",
    b"thing.cpython-310.pyc", b"libc.so.6", b"libstdc++.so.6", b"x86_64-linux-gnu", b"\xed\xa0\x80",
]  # fmt: skip
PLACES = [
    b"etc/passwd", b"etc/os-release", b"var/lib/dpkg/status", b"usr/lib/x86_64-linux-gnu/libc.so.6", b"lib/a", b"bin",
    b"usr/lib/x86_64-linux-gnu/libstdc++.so.6", b"usr/local/lib/python3.10/dist-packages/thing-1.0.dist-info/RECORD",
    b"usr/local/lib/python3.10/dist-packages/six-1.16.0.egg-info", b"usr/bin/python3.10", b"usr/lib/python3.10/a.py",
    b"usr/lib/python3/dist-packages", b"usr/lib", b"lib64", b"usr/local/lib/python3.10", b"usr", b"/", b"./",
]  # fmt: skip
NUMBERS = [
    b"", b"0", b"-1", b"1", b"512", b"7777777777", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"zz", b"\x80" + bytes(11),
]  # fmt: skip
LINES = [
    "Package: a", "Package: libc6", "Status: install ok installed", "Version: 1.0", "Architecture: amd64", "", " b",
    f"Version: {'9' * 5000}.1", "Source: a (1", "Maintainer: \u00fc\udc80", "Name: a", "Version: !", "ID=debian", "ID=",
    "VERSION_ID='", "=", "ID=\x00/..", "a.py,sha256=x,1", "../../../../../etc/passwd,,", ",,", '"', "a,b,c,d", "\0",
    "[a]", "GNU C Library stable release version 2.39.", f"GNU C Library stable release version {'9' * 5000}.1",
    "\ud800",
    "root:x:0:0:root:/root:/bin/sh", ":::::::::", "a:b", "[console_scripts]", "x = a:b", "License: \u2028", "\x85",
]  # fmt: skip

texts = st.lists(st.sampled_from(LINES) | st.text(max_size=9), max_size=8).map(
    lambda lines: "\n".join(lines).encode(errors="surrogatepass")
)
contents: SearchStrategy[bytes] = st.binary(max_size=40) | texts
names = st.sampled_from(PLACES) | st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map(b"/".join)
PAX_KEYS = [
    b"path", b"linkpath", b"size", b"mtime", b"uid", b"mode", b"hdrcharset", b"GNU.sparse.major", b"GNU.sparse.minor",
    b"GNU.sparse.name", b"GNU.sparse.size", b"GNU.sparse.realsize", b"GNU.sparse.map", b"GNU.sparse.numblocks",
    b"GNU.sparse.offset", b"GNU.sparse.numbytes", b"SCHILY.xattr.a", b"",
]  # fmt: skip
PAX_VALUES = [
    b"", b"0", b"1", b"-1", b"-512", b"1.0", b"nan", b"inf", b"1e400", b"1e18", b"9" * 5000, b"0,0", b"1,2,3", b"a,b",
    b"\xff", b"\0", b"BINARY", b"8", b"a\0b", b"-1,-1",
]  # fmt: skip
records = st.lists(
    st.tuples(st.sampled_from(PAX_KEYS), st.sampled_from(PAX_VALUES) | names), min_size=1, max_size=4
).map(lambda rows: b"".join(pax(*row) for row in rows))


@st.composite
def members(draw: st.DrawFn) -> bytes:
    """Draw a member, with what may stand before it: an extended header, a long name."""
    numbers = st.sampled_from(NUMBERS)
    fields = draw(st.dictionaries(st.sampled_from(["size", "mode", "time", "prefix"]), numbers, max_size=1))
    before = draw(
        st.just(b"")
        | st.just(b"")
        | records.map(lambda data: entry(b"x", data, b"x"))
        | records.map(lambda data: entry(b"g", data, b"g"))
        | st.binary(max_size=30).map(lambda data: entry(b"x", data, b"x"))
        | names.map(lambda name: entry(b"././@LongLink", name, b"L"))
        | names.map(lambda name: entry(b"././@LongLink", name, b"K"))
    )
    return before + entry(draw(names), draw(contents), draw(st.sampled_from(KINDS)), draw(names), **fields)


tars = st.builds(
    lambda rows, end, at: changed(b"".join(rows) + end, at) if rows or end else b"",
    st.lists(members(), max_size=6), st.sampled_from([END, END, b"", b"junk"]), st.just([]) | st.just([]) | changes,
)  # fmt: skip

OCI_WORDS = [
    "manifests", "config", "layers", "mediaType", "digest", "size", "platform", "schemaVersion", "rootfs", "diff_ids",
    "os", "architecture", "history", "Env", "annotations", "created_by", "empty_layer", "Config", "RepoTags", "Layers",
    "org.opencontainers.image.ref.name", "io.containerd.image.name", "variant", "linux", "amd64",
]  # fmt: skip


def nested(depth: int) -> object:
    """Return lists within lists."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


values: SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(OCI_WORDS)
    | st.sampled_from(["\ud800", "\0", "sha256:" + "a" * 64, "../../beside/precious", "9" * 30, 10**400, -1, 1 << 70])
    | st.sampled_from([300, 600, 900, 940, 960, 980]).map(nested),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(OCI_WORDS), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


def replaced(value: object, path: list[int], new: object) -> object:
    """Return a JSON value with another one at a place, which is found by taking the keys by their numbers."""
    if not path or not isinstance(value, (dict, list)) or not value:
        return new
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[path[0] % len(keys)]
    inner = replaced(value[key], path[1:], new)
    if isinstance(value, dict):
        return {**value, key: inner}
    return [*value[:key], inner, *value[key + 1 :]]


paths = st.lists(st.integers(0, 7), min_size=1, max_size=5)
edits = st.lists(st.tuples(paths, values), min_size=1, max_size=3)
