"""Wheels as their makers pack them, and as nobody should."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ANY = "py3-none-any"
PROGRAM = re.compile(r"/(bin|scripts)/|\.sh$")


def about_wheel(tag: str) -> bytes:
    """Return what the file WHEEL says of a wheel with a tag."""
    pure = str(tag.endswith("none-any")).lower()
    return f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode()


WHEEL = about_wheel(ANY)


def record(files: Mapping[str, bytes], info: str, algorithm: str = "sha256") -> str:
    """Return a true RECORD."""
    rows = [f"{_quoted(name)},{_hash(data, algorithm)},{len(data)}\n" for name, data in files.items()]
    return "".join([*rows, f"{info}/RECORD,,\n"])


def write(
    folder: Path, name: str, version: str, files: Mapping[str, bytes], requires: Sequence[str] = (), *, tag: str = ANY,
    recorded: Mapping[str, bytes] | None = None, method: int = zipfile.ZIP_STORED, algorithm: str = "sha256",
) -> Path:  # fmt: skip
    """Write a wheel; RECORD has the hashes of `recorded` where that differs.

    What is in bin or scripts, and .sh files, may be run.
    """
    info = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    about = {f"{info}/METADATA": "\n".join([*lines, ""]).encode(), f"{info}/WHEEL": about_wheel(tag)}
    whole = {**files, **about, **files}  # what a test gives takes the place of either
    whole[f"{info}/RECORD"] = record({**whole, **(recorded or {})}, info, algorithm).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", method) as archive:
        for member, data in whole.items():
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (0o100755 if PROGRAM.search(member) else 0o100644) << 16
            archive.writestr(entry, data, method)
    return path


def pack(
    directory: Path, files: Mapping[str, bytes], name: str = "thing", *, recorded: Mapping[str, bytes] | None = None,
    method: int = zipfile.ZIP_DEFLATED, algorithm: str = "sha256",
) -> Path:  # fmt: skip
    """Write release 1.0 of a package, compressed."""
    return write(directory, name, "1.0", files, recorded=recorded, method=method, algorithm=algorithm)


def damaged(path: Path, end: str) -> Path:
    """Change one byte of the content, as it is packed, of the file whose name ends so."""
    with zipfile.ZipFile(path) as archive:
        info = next(info for info in archive.infolist() if info.filename.endswith(end))
    data = bytearray(path.read_bytes())
    start = info.header_offset + 30 + sum(struct.unpack_from("<2H", data, info.header_offset + 26))
    data[start + info.compress_size // 2] ^= 1
    path.write_bytes(data)
    return path


def _hash(data: bytes, algorithm: str) -> str:
    return f"{algorithm}=" + base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).decode().rstrip("=")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\n\r') else name
