"""The files in a wheel's archive, past the streams of `zipfile`, a piece at a time.

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

from images.store.blobs import CHUNK

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
