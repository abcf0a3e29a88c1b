"""RECORD of a wheel: the hash and the size of every file (PyPA, "Binary distribution format")."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Mapping

from installer.records import Hash, InvalidRecordEntry, RecordEntry, parse_record_file


def parse_record(text: str) -> dict[str, RecordEntry]:
    """Return the rows by the names of their files.

    Raises ValueError when one of them cannot be read.
    """
    try:
        return {row[0]: RecordEntry.from_elements(*row) for row in parse_record_file(text.splitlines())}
    except (csv.Error, InvalidRecordEntry) as error:
        raise ValueError(f"RECORD cannot be read: {error}") from error


def row(name: str, data: bytes) -> RecordEntry:
    """Return a true row for a file."""
    return RecordEntry(name, hash_of(hashlib.sha256(data).hexdigest()), len(data))


def write_record(files: Mapping[str, bytes], info: str) -> str:
    """Return the text of a RECORD in the directory `info`; `files` maps the paths in the wheel to their contents."""
    rows = [f"{','.join(row(name, data).to_row())}\n" for name, data in files.items()]
    return "".join([*rows, f"{info}/RECORD,,\n"])


def hash_of(sha256: str) -> Hash:
    """Return a sha256, given in hexadecimal, as RECORD writes it."""
    return Hash("sha256", encoded(bytes.fromhex(sha256)))


def sha256_of(entry: RecordEntry | None) -> str | None:
    """Return the sha256 of a row in hexadecimal, or None where there is no row, or one with another algorithm."""
    if entry is None or entry.hash_ is None or entry.hash_.name != "sha256":
        return None
    text = entry.hash_.value
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()


def encoded(digest: bytes) -> str:
    """Return a digest as RECORD writes it."""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
