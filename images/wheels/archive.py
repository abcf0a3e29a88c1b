"""A wheel, opened: its files as `installer` takes them, and what RECORD says of each."""

from __future__ import annotations

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

from images.host.errors import WorldFault
from images.wheels import record
from images.wheels.members import HEADER, NOT_DEFLATE, WheelMember

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
        rows = record.parse_record(self.read_dist_info("RECORD"))
        if self.distribution in EDITED:
            edited = (f"{self.dist_info_dir}/METADATA", *EDITED[self.distribution])
            rows |= {name: record.row(name, self.read(name)) for name in edited if name in self.members}
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
