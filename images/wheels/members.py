"""The files in a wheel's archive, past the streams of `zipfile`: a small one is read at once, a large one in chunks.

Most of the thousands of files of an image are small: a stream for each took as long as inflating them. ISA-L inflates,
and computes checksums: the same bytes in a quarter of zlib's time. The format: APPNOTE.TXT of PKWARE, 4.3.7.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple, cast

from isal import isal_zlib

from images.host.store import CHUNK

HEADER = struct.Struct("<4s5H3L2H")  # before the name of a file and its extra field
SIGNATURE = b"PK\x03\x04"
USUAL_EXTRA = 32  # bytes of that field
UTF8 = 0x800  # a bit of a file's flags: its name is in UTF-8, else in code page 437
PIECE = 1 << 18  # bytes of packed data that are inflated at a time
SMALL = 4 << 20  # bytes of a file that is held in memory
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

NOT_DEFLATE = cast("type[Exception]", isal_zlib.error)


class Member(NamedTuple):
    """A file of an archive, of which nothing is read before somebody asks; `archive` is the open archive."""

    archive: IO[bytes]
    info: zipfile.ZipInfo

    def read(self) -> bytes:
        """Return the content, which has the size and the checksum that the directory of the archive says.

        Raises BadZipFile, NOT_DEFLATE or EOFError where it has not.
        """
        info = self.info
        head = self._head(info.compress_size)
        start = self._start(head)
        packed = memoryview(head)[start : start + info.compress_size]
        if len(packed) < info.compress_size:  # the field between the name and the content is longer than usual
            packed = memoryview(self._packed(start, info.compress_size))
        if info.compress_type == zipfile.ZIP_DEFLATED:
            data = isal_zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, info.file_size + 1)
        else:
            data = bytes(packed)
        self._check(len(data), isal_zlib.crc32(data))
        return data

    def chunks(self) -> Iterator[bytes]:
        """Yield the content, as `read` returns it; of a file that is not SMALL in pieces of up to CHUNK bytes."""
        if self.info.file_size <= SMALL:
            yield self.read()
            return
        size, checksum = 0, 0
        for data in self._inflated():
            size, checksum = size + len(data), isal_zlib.crc32(data, checksum)
            if size > self.info.file_size:
                break
            yield data
        self._check(size, checksum)

    def _inflated(self) -> Iterator[bytes]:
        start, end = self._start(self._head()), self.info.compress_size
        pieces = (self._packed(start + at, min(PIECE, end - at)) for at in range(0, end, PIECE))
        if self.info.compress_type == zipfile.ZIP_STORED:
            yield from pieces
            return
        inflater = isal_zlib.decompressobj(-zlib.MAX_WBITS)
        for piece in pieces:
            while data := inflater.decompress(piece, CHUNK):
                yield data
                piece = inflater.unconsumed_tail
            if inflater.eof:
                return

    def _head(self, more: int = 0) -> bytes:
        """Return the header of the file and its name, and about so many bytes more."""
        longest = HEADER.size + 4 * len(self.info.orig_filename) + USUAL_EXTRA  # a character has up to four bytes
        return os.pread(self.archive.fileno(), longest + more, self.info.header_offset)

    def _start(self, head: bytes) -> int:
        """Return where the packed content begins, from the header on, which is of the file that the directory names."""
        if len(head) < HEADER.size:
            raise EOFError
        info, (signature, _, flags, *_, name_size, extra_size) = self.info, HEADER.unpack_from(head)
        if signature != SIGNATURE:
            raise zipfile.BadZipFile(f"no file is where its directory has {info.filename!r}")
        end = HEADER.size + int(name_size)
        name = head[HEADER.size : end].decode("utf-8" if flags & UTF8 else "cp437")
        if name != info.orig_filename:
            raise zipfile.BadZipFile(f"its directory has {info.orig_filename!r} where the file is {name!r}")
        return end + int(extra_size)

    def _packed(self, start: int, size: int) -> bytes:
        """Return bytes of the file, `start` bytes after the beginning of its header."""
        data = os.pread(self.archive.fileno(), size, self.info.header_offset + start)
        if len(data) < size:
            raise EOFError
        return data

    def _check(self, size: int, checksum: int) -> None:
        if (size, checksum) != (self.info.file_size, self.info.CRC):
            raise zipfile.BadZipFile(f"Bad CRC-32 for file {self.info.filename!r}")
