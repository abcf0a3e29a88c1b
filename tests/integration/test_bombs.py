"""Files of some kilobytes that claim or unpack to terabytes: build.py refuses them in little memory and time."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import zstandard

from tests.support.harness import Done, assert_three_parts, call
from tests.support.hostile import END, entry, header
from tests.support.stand_in import SYSTEM, Image, Part, layer, layout, write

# Of the whole process; Python, its libraries and their threads reserve more than they use.
ADDRESSES, SECONDS = 2_000_000, 90  # kilobytes, seconds of a core


def limited(*options: str, store: Path) -> Done:
    """Run build.py with limits of the kernel's."""
    limits = f'ulimit -v {ADDRESSES} -t {SECONDS}; exec "$@"'
    command = ["bash", "-c", limits, "bash", "env", f"XDG_CACHE_HOME={store}", sys.executable, "build.py", *options]
    return call(command, seconds=300)


def zstd(chunks: Iterable[bytes]) -> tuple[bytes, str]:
    """Compress a layer; return it, and the digest of what it unpacks to."""
    packer, hashed, out = zstandard.ZstdCompressor().compressobj(), hashlib.sha256(), io.BytesIO()
    for chunk in chunks:
        hashed.update(chunk)
        out.write(packer.compress(chunk))
    out.write(packer.flush())
    return out.getvalue(), f"sha256:{hashed.hexdigest()}"


def a_million_files() -> Iterator[bytes]:
    for number in range(1_000_000):
        yield header(b"%d/%d" % (number // 1000, number))
    yield END


def long_lists() -> Iterator[bytes]:
    """Write lists of a package's files, each as long as is read, of more than an image may have together."""
    for number in range(40):
        name = b"usr/local/lib/python3.10/dist-packages/a%d-1.dist-info/RECORD" % number
        yield header(name, size=b"%o" % (16 << 20))
        yield b"a,,\n" * (4 << 20)
    yield END


def deep_directories() -> Iterator[bytes]:
    for number in range(20_000):
        yield entry(b"%d/" % number + b"d/" * 180, kind=b"5")
    yield END


def zeros() -> tuple[bytes, str]:
    """Write a layer whose end no reader waits for: the same compressed piece again and again."""
    piece = gzip.compress(bytes(64 << 20), mtime=0)
    start = gzip.compress(header(b"a", size=b"\x80" + bytes(5) + b"\xff" * 6), mtime=0)
    return start + piece * 100, "sha256:" + "0" * 64


def nested() -> tuple[bytes, str]:
    data = layer(SYSTEM)
    for _ in range(1000):
        data = gzip.compress(data, mtime=0)
    return data, "sha256:" + "0" * 64


LAYERS: dict[str, tuple[Callable[[], tuple[bytes, str]], str]] = {
    "gzip in gzip, a thousand times": (nested, "a layer is not a tar"),
    "records of 2 GiB": (lambda: zstd([header(b"x", b"x", size=b"%o" % (1 << 31)), bytes(1 << 20)]), "is not a tar"),
    "a file of 2^95 bytes": (lambda: zstd([header(b"a", size=b"\x80" + b"\xff" * 11)]), "is not a tar"),
    "directories within each other": (lambda: zstd(deep_directories()), "that base cannot work"),
    "lists without end": (lambda: zstd(long_lists()), "too many files"),
    "zeros without end": (zeros, "unpacks to too much"),
    "a million empty files": (lambda: zstd(a_million_files()), "that base cannot work"),
}
SLOW = ("zeros without end", "a million empty files", "lists without end", "directories within each other")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in LAYERS]
)
def test_a_layer_that_is_a_bomb_is_refused(tmp_path: Path, name: str) -> None:
    layer, said = LAYERS[name]
    data, diff_id = layer()
    path = write(tmp_path / "layout", layout({"1": Image.of([Part("zstd", diff_id, data)])}))

    done = limited("lock", "--base", f"oci:{path}", "--python", "3.10", "--output", str(tmp_path / "l"), store=tmp_path)

    assert_three_parts(
        done, 2 if said == "that base cannot work" else 1, said, "another image" if done.code == 1 else ""
    )
    assert sorted(left.name for left in tmp_path.iterdir()) == ["layout", "multinode"]
