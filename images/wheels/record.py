"""RECORD of a wheel: the hash and the size of every file (PyPA, "Binary distribution format")."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Iterable, Mapping, Sequence

from installer.records import Hash, InvalidRecordEntry, RecordEntry, parse_record_file

# "The hash algorithm must be sha256 or better."
ALGORITHMS = ("sha256", "sha384", "sha512")
SHOWN = 3  # names in one message


def read(text: str, sizes: Mapping[str, int]) -> dict[str, RecordEntry]:
    """Return the row of every file; `sizes` are the bytes of those that need one, by name.

    Raises ValueError when a row is missing or has no hash, or when its size is not that of the file.
    """
    rows = _rows(text)
    _refuse("RECORD does not list", (name for name in sizes if name not in rows))
    entries = {name: _entry(rows[name]) for name in sizes}
    _refuse("RECORD has no hash of", (name for name, entry in entries.items() if not _is_strong(entry.hash_)))
    _refuse("RECORD has another size of", (name for name, entry in entries.items() if entry.size != sizes[name]))
    return entries


def refuse_content(entry: RecordEntry, digest: bytes) -> None:
    """Raise ValueError when a file does not have the hash of its row; `digest` is by the row's own algorithm."""
    if entry.hash_ is None or entry.hash_.value != _encoded(digest):
        raise ValueError(f"RECORD has another hash of {entry.path!r}")


def row(name: str, data: bytes) -> RecordEntry:
    """Return a true row for a file."""
    return RecordEntry(name, hash_of(hashlib.sha256(data).hexdigest()), len(data))


def write(files: Mapping[str, bytes], info: str) -> str:
    """Return the text of a RECORD in the directory `info`; `files` maps the paths in the wheel to their contents."""
    rows = [f"{name},{hash_of(hashlib.sha256(data).hexdigest())},{len(data)}\n" for name, data in files.items()]
    return "".join([*rows, f"{info}/RECORD,,\n"])


def hash_of(sha256: str) -> Hash:
    """Return a sha256, given in hexadecimal, as RECORD writes it."""
    return Hash("sha256", _encoded(bytes.fromhex(sha256)))


def sha256_of(entry: RecordEntry | None) -> str | None:
    """Return the sha256 of a row in hexadecimal, or None where there is no row, or one with another algorithm.

    Raises ValueError when its hash is not written as one.
    """
    if entry is None or entry.hash_ is None or entry.hash_.name != "sha256":
        return None
    text = entry.hash_.value
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()


def _encoded(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _rows(text: str) -> dict[str, tuple[str, str, str]]:
    try:
        return {row[0]: row for row in parse_record_file(text.splitlines())}
    except (csv.Error, InvalidRecordEntry) as error:
        raise ValueError(f"RECORD cannot be read: {error}") from error


def _entry(row: tuple[str, str, str]) -> RecordEntry:
    try:
        return RecordEntry.from_elements(*row)
    except InvalidRecordEntry as error:
        raise ValueError(f"RECORD of {row[0]!r}: {error}") from error


def _is_strong(hash_: Hash | None) -> bool:
    return hash_ is not None and hash_.name in ALGORITHMS


def _refuse(fact: str, names: Iterable[str]) -> None:
    found: Sequence[str] = [repr(name) for name in names]
    if found:
        rest = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise ValueError(f"{fact} {', '.join(found[:SHOWN])}{rest}")
