"""A wheel from outside: its names, sizes, RECORD and entry points are in order, or it is refused.

The rules are those of PyPA, "Binary distribution format", as pip and `installer` apply them; where those would write
outside of a directory, run out of memory or end in an assertion, a wheel is refused.
"""

from __future__ import annotations

import configparser
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

from installer.exceptions import InstallerError
from installer.records import RecordEntry
from installer.sources import WheelContentElement, WheelFile
from installer.utils import SCHEME_NAMES, parse_entrypoints

from images.foreign import bounds
from images.foreign.paths import flaw
from images.host.errors import WorldFault
from images.wheels import record
from images.wheels.members import HEADER, METHODS, NOT_DEFLATE, Member

# Files of .dist-info that RECORD has no hash of, and the one that is the installer's own to write.
UNLISTED, INSTALLER = ("RECORD", "RECORD.jws", "RECORD.p7s"), "INSTALLER"
# Projects whose wheels on PyPI were edited after RECORD was written: METADATA and these files. In IPEX from 1.11.200 to
# 2.7.0 the version lost its "+cpu", so that RECORD has the sizes and hashes of the files before.
EDITED = {"intel_extension_for_pytorch": ("intel_extension_for_pytorch/version.py",)}
NEEDED = ("METADATA", "RECORD", "WHEEL")
METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
# Bits of a file's flags (APPNOTE.TXT of PKWARE, 4.4.4), and what they say of it.
FLAGS = {0x1: "is encrypted", 0x20: "is patched data", 0x40: "is encrypted"}

UNREADABLE = (InstallerError, zipfile.BadZipFile, NOT_DEFLATE, zlib.error, EOFError, NotImplementedError, ValueError)
REMEDY = "ask whoever made the wheel for one that follows the specification, or leave the package out"
DAMAGE = (zipfile.BadZipFile, NOT_DEFLATE, zlib.error, EOFError)
ANOTHER = "--wheelhouse DIR with a good copy of the wheel; a lock that names this one has to be made again"


class CheckedWheel(WheelFile):
    """A wheel as `installer` reads it: what has been checked is all that it returns."""

    def __init__(self, file: zipfile.ZipFile, stream: BinaryIO) -> None:
        super().__init__(file)
        self._file, self._stream = file, stream
        self._infos = [info for info in file.infolist() if not info.filename.endswith("/")]
        for info in file.infolist():
            require_inside(file, info)

    @property
    def names(self) -> list[str]:
        """Return the names of the files."""
        return [info.filename for info in self._infos]

    @property
    def members(self) -> Iterator[Member]:
        """Return the files, of which nothing has been read yet."""
        return (Member(self._stream, info) for info in self._infos)

    def read(self, name: str) -> bytes:
        """Return the content of a file: never more than the directory of the archive says."""
        return Member(self._stream, self._file.getinfo(name)).read()

    @cached_property
    def dist_info_filenames(self) -> list[str]:
        """Return the names of the files in .dist-info, relative to it; `installer` asks for them several times."""
        start = f"{self.dist_info_dir}/"
        return [name.removeprefix(start) for name in self.names if name.startswith(start)]

    def read_dist_info(self, filename: str) -> str:
        """Return the text of a file of .dist-info."""
        return self.read(f"{self.dist_info_dir}/{filename}").decode()

    def get_contents(self) -> Iterator[WheelContentElement]:
        """Yield every file but the installer's own, as `installer` takes them: each stream is a Member."""
        replaced = f"{self.dist_info_dir}/{INSTALLER}"
        for member in self.members:
            mode = member.info.external_attr >> 16
            if member.info.filename != replaced:
                may_run = stat.S_ISREG(mode) and bool(mode & 0o111)  # as pip has it, utils/unpacking.py
                yield (member.info.filename, "", ""), cast("BinaryIO", member), may_run

    @cached_property
    def recorded(self) -> dict[tuple[str, str], RecordEntry]:
        """Return the row of RECORD of every file that has one, by the scheme that the file goes to and its path there.

        Raises ValueError when RECORD is not complete, or when two files go to one place.
        """
        info = self.dist_info_dir
        unlisted = {f"{info}/{name}" for name in (*UNLISTED, INSTALLER)}
        edited = {f"{info}/METADATA", *EDITED[self.distribution]} if self.distribution in EDITED else set()
        sizes = {info.filename: info.file_size for info in self._infos if info.filename not in unlisted}
        kept = {name: size for name, size in sizes.items() if name not in edited}
        rows = record.read(self.read_dist_info("RECORD"), kept)
        rows |= {name: record.row(name, self.read(name)) for name in sorted(edited & sizes.keys())}
        found: dict[tuple[str, str], RecordEntry] = {}
        for name, row in rows.items():
            if found.setdefault(self._place(name), row) is not row:
                raise ValueError(f"two files go to the place of {name!r}")
        return found

    def expected(self, scheme: str, path: str) -> RecordEntry | None:
        """Return the row of RECORD of a file, by its scheme and its path there."""
        return self.recorded.get((_one_of_two(scheme), path))

    def row(self, name: str) -> RecordEntry | None:
        """Return the row of RECORD of a file by its name in the archive; RECORD itself has none."""
        return self.recorded.get(self._place(name))

    def _place(self, name: str) -> tuple[str, str]:
        """Return the scheme of a file and its path there."""
        head, _, rest = name.partition("/")
        if head != self.data_dir:
            if rest and head.endswith(".data"):  # pip takes it for this wheel's; it would be lost among the modules
                raise ValueError(f"{name!r} is in another directory of data than {self.data_dir}")
            return "purelib", name
        scheme, _, path = rest.partition("/")
        if scheme not in SCHEME_NAMES or not path:
            raise ValueError(f"{name!r} is in no directory of {self.data_dir} that is known")
        return _one_of_two(scheme), path

    def check(self, size: int) -> int:
        """Return the number of files, if everything but their content is in order; `size` is the archive's own.

        Raises ValueError that says what is not.
        """
        names = self.names
        for name in names:
            if found := flaw(name):
                raise ValueError(f"the name {name!r} {found}")
        if len(set(names)) != len(names):
            raise ValueError("two files have one name")
        if lacking := [name for name in NEEDED if f"{self.dist_info_dir}/{name}" not in names]:
            raise ValueError(f"no {lacking[0]}")
        self._check_packing(size)
        self._check_scripts()
        return len(self.recorded)

    def _check_packing(self, size: int) -> None:
        for info in self._infos:
            if found := [said for flag, said in FLAGS.items() if info.flag_bits & flag]:
                raise ValueError(f"{info.filename!r} {found[0]}")
            if info.compress_type not in METHODS:
                raise ValueError(f"{info.filename!r} is compressed by method {info.compress_type}, not by deflate")
        unpacked = sum(info.file_size for info in self._infos)
        if unpacked > bounds.WHEEL.of(size):
            raise ValueError(f"{size} bytes would unpack to {unpacked}")

    def _check_scripts(self) -> None:
        if "entry_points.txt" not in self.dist_info_filenames:
            return
        try:
            names = [name for name, *_ in parse_entrypoints(self.read_dist_info("entry_points.txt"))]
        except configparser.Error as error:
            raise ValueError(f"entry_points.txt cannot be read: {error.message}") from error
        except (AssertionError, AttributeError) as error:  # how `installer` refuses it
            raise ValueError("entry_points.txt has a script that is not MODULE:FUNCTION") from error
        for name in names:
            if "/" in name or flaw(name):
                raise ValueError(f"the script {name!r} is not the name of a file")


def require_inside(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Raise BadZipFile where the directory of a zip says that a file lies elsewhere than before itself."""
    if not 0 <= info.header_offset <= file.start_dir - HEADER.size - info.compress_size:
        raise zipfile.BadZipFile(f"its directory points outside of it for {info.filename!r}")


@contextmanager
def opened(path: Path) -> Iterator[CheckedWheel]:
    """Open a wheel that is in order; `content` compares what is in its files with RECORD.

    Raises WorldFault that names the wheel and what is wrong, also for what comes to light while it is read.
    """
    with reopened(path) as archive:
        with _naming(path):
            archive.check(path.stat().st_size)
        yield archive


@contextmanager
def reopened(path: Path) -> Iterator[CheckedWheel]:
    """Open a wheel that was found in order when it arrived.

    Raises WorldFault as `opened` does.
    """
    with _naming(path), path.open("rb") as stream, zipfile.ZipFile(stream) as file:
        yield CheckedWheel(file, stream)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        said = str(error.args[-1] if error.args else "") or "it is cut short"  # `installer` puts the wheel itself first
        remedy = ANOTHER if isinstance(error, DAMAGE) else REMEDY
        raise WorldFault("cannot install a wheel", f"{path.name} ({said})", remedy) from error


def check(path: Path) -> int:
    """Return the number of files in a wheel that is in order.

    Raises WorldFault when it is not.
    """
    with opened(path) as archive:
        return len(archive.recorded)


def _one_of_two(scheme: str) -> str:
    """Return one name for the two schemes that are one directory here."""
    return "purelib" if scheme == "platlib" else scheme
