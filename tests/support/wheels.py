"""Wheels as their makers pack them, and as nobody should."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def record(files: Mapping[str, bytes], info: str, algorithm: str = "sha256") -> str:
    """Return a true RECORD."""
    rows = [f"{_quoted(name)},{_hash(data, algorithm)},{len(data)}\n" for name, data in files.items()]
    return "".join([*rows, f"{info}/RECORD,,\n"])


def pack(
    directory: Path, files: Mapping[str, bytes], name: str = "thing", *, recorded: Mapping[str, bytes] | None = None,
    method: int = zipfile.ZIP_DEFLATED, algorithm: str = "sha256",
) -> Path:  # fmt: skip
    """Write release 1.0 of a package; RECORD has the hashes of `recorded` where that differs. A .sh file may be run."""
    info = f"{name}-1.0.dist-info"
    about = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": WHEEL,
    }
    whole = {**about, **files}
    whole[f"{info}/RECORD"] = record({**whole, **(recorded or {})}, info, algorithm).encode()
    path = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", method) as archive:
        for member, data in whole.items():
            entry = zipfile.ZipInfo(member)
            entry.external_attr = (0o100755 if member.endswith(".sh") else 0o100644) << 16
            archive.writestr(entry, data, method)
    return path


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
