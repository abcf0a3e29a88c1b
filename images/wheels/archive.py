"""A wheel, opened: its files as `installer` takes them, read a piece at a time, and what RECORD says of each."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple, cast

from installer.exceptions import InstallerError
from installer.records import Hash, InvalidRecordEntry, RecordEntry, parse_record_file
from installer.sources import WheelContentElement, WheelFile
from isal import isal_zlib

from images.host.errors import WorldFault
from images.store.blobs import CHUNK


@dataclass(frozen=True)
class Wheel:
    """A wheel of a lock in the store: project, version, its sha256 and where it lies."""

    project: str
    version: str
    sha256: str
    path: Path


# RECORD of a wheel: the hash and the size of every file (PyPA, "Binary distribution format").


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


# The files in a wheel's archive, past the streams of `zipfile`, a piece at a time.
#
# Most of the thousands of files of an image are small: a stream for each took as long as inflating them. ISA-L
# inflates, and computes checksums: the same bytes in a quarter of zlib's time. Its form: APPNOTE.TXT of PKWARE, 4.3.7.

HEADER = struct.Struct("<4s5H3L2H")  # before the name of a file and its extra field
SIGNATURE = b"PK\x03\x04"
UTF8 = 0x800  # a bit of a file's flags: its name is in UTF-8, else in code page 437
PIECE = 1 << 18  # bytes of packed data that are inflated at a time
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

NOT_DEFLATE = cast("type[Exception]", isal_zlib.error)


class WheelMember(NamedTuple):
    """A file of an archive, of which nothing is read before somebody asks; `archive` is the open archive."""

    archive: IO[bytes]
    info: zipfile.ZipInfo

    def read(self) -> bytes:
        """Return the content; see `chunks`."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Yield the content, which has the size and the checksum that the directory of the archive says.

        Raises BadZipFile, NOT_DEFLATE or EOFError where it has not, after no more than CHUNK bytes too many.
        """
        size, checksum = 0, 0
        for data in self._inflated():
            size, checksum = size + len(data), isal_zlib.crc32(data, checksum)
            if size > self.info.file_size:
                break
            yield data
        if (size, checksum) != (self.info.file_size, self.info.CRC):
            raise zipfile.BadZipFile(f"Bad CRC-32 for file {self.info.filename!r}")

    def _inflated(self) -> Iterator[bytes]:
        if self.info.compress_type not in METHODS:
            reason = f"{self.info.filename!r} is compressed by method {self.info.compress_type}, not by deflate"
            raise NotImplementedError(reason)
        start, end = self._start(), self.info.compress_size
        pieces = (self._packed(start + at, min(PIECE, end - at)) for at in range(0, end, PIECE))
        if self.info.compress_type == zipfile.ZIP_STORED:
            yield from pieces
            return
        inflater = isal_zlib.decompressobj(-zlib.MAX_WBITS)
        for piece in pieces:
            while not inflater.eof and (data := inflater.decompress(piece, CHUNK)):
                yield data
                piece = inflater.unconsumed_tail

    def _start(self) -> int:
        """Return where the packed content begins, after a header that is of the file that the directory names."""
        info = self.info
        name = info.orig_filename.encode("utf-8" if info.flag_bits & UTF8 else "cp437")
        head = self._packed(0, HEADER.size + len(name))
        signature, *_, name_size, extra_size = HEADER.unpack_from(head)
        if (signature, name_size, head[HEADER.size :]) != (SIGNATURE, len(name), name):
            raise zipfile.BadZipFile(f"another file is where its directory has {info.orig_filename!r}")
        return len(head) + int(extra_size)

    def _packed(self, start: int, size: int) -> bytes:
        """Return bytes of the file, `start` bytes after the beginning of its header."""
        data = os.pread(self.archive.fileno(), size, self.info.header_offset + start)
        if len(data) < size:
            raise EOFError
        return data


INSTALLER = "INSTALLER"  # the file of .dist-info that is the installer's own to write
# Projects whose wheels on PyPI were edited after RECORD was written: METADATA and these files. In IPEX from 1.11.200 to
# 2.7.0 the version lost its "+cpu", so that RECORD has the sizes and hashes of the files before.
EDITED = {"intel_extension_for_pytorch": ("intel_extension_for_pytorch/version.py",)}

DAMAGE = (zipfile.BadZipFile, NOT_DEFLATE, zlib.error, EOFError)
UNREADABLE = (*DAMAGE, InstallerError, NotImplementedError, ValueError)
REMEDY = "ask whoever made the wheel for one that follows the specification, or leave the package out"
ANOTHER = "--wheelhouse DIR with a good copy of the wheel; a lock that names this one has to be made again"


def site_path(name: str) -> str | None:
    """Return where a file of a wheel lies below the site of the image; None for one that goes elsewhere."""
    path = path_in_scheme(name)
    return path if path == name or re.match(r"[^/]+\.data/(purelib|platlib)/", name) else None


def path_in_scheme(name: str) -> str:
    """Return the path of a file of a wheel below the site, or behind the name of another scheme: `data/bin/mpirun`."""
    return re.sub(r"^[^/]+\.data/(?:(?:purelib|platlib)/)?", "", name)


class WheelArchive(WheelFile):
    """A wheel as `installer` reads it, by names of files that `read_content` has checked."""

    def __init__(self, file: zipfile.ZipFile, stream: BinaryIO) -> None:
        super().__init__(file)
        files = [info for info in file.infolist() if not info.filename.endswith("/")]
        self.members = {info.filename: WheelMember(stream, info) for info in files}
        if len(self.members) < len(files):
            raise zipfile.BadZipFile("two files have one name")
        for info in files:
            if not 0 <= info.header_offset <= file.start_dir - HEADER.size - info.compress_size:
                raise zipfile.BadZipFile(f"its directory points outside of it for {info.filename!r}")

    def read(self, name: str) -> bytes:
        """Return the content of a file: never more than the directory of the archive says."""
        if name not in self.members:
            raise ValueError(f"no {name}")
        return self.members[name].read()

    def read_dist_info(self, filename: str) -> str:
        """Return the text of a file of .dist-info."""
        return self.read(f"{self.dist_info_dir}/{filename}").decode()

    def get_contents(self) -> Iterator[WheelContentElement]:
        """Yield every file but the installer's own, as `installer` takes them: each stream is a Member."""
        for name, member in self.members.items():
            mode = member.info.external_attr >> 16
            if name != f"{self.dist_info_dir}/{INSTALLER}":
                may_run = stat.S_ISREG(mode) and bool(mode & 0o111)  # as pip has it, utils/unpacking.py
                yield (name, "", ""), cast("BinaryIO", member), may_run

    @cached_property
    def rows(self) -> dict[str, RecordEntry]:
        """Return the rows of RECORD by the names of their files.

        Raises ValueError where it cannot be read.
        """
        rows = parse_record(self.read_dist_info("RECORD"))
        if self.distribution in EDITED:
            edited = (f"{self.dist_info_dir}/METADATA", *EDITED[self.distribution])
            rows |= {name: row(name, self.read(name)) for name in edited if name in self.members}
        return rows


@contextmanager
def open_wheel(path: Path) -> Iterator[WheelArchive]:
    """Open a wheel.

    Raises WorldFault that names it and what is wrong, also for what comes to light while it is read.
    """
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as file:
            yield WheelArchive(file, stream)
    except UNREADABLE as error:
        reason = (
            str(error.args[-1] if error.args else "") or "it is cut short"
        )  # `installer` puts the wheel itself first
        remedy = ANOTHER if isinstance(error, DAMAGE) else REMEDY
        raise WorldFault("cannot install a wheel", f"{path.name} ({reason})", remedy) from error
