"""Debian packages, by what names them exactly, and read without dpkg (deb(5)), within bounds."""

from __future__ import annotations

import io
import lzma
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from images.debian import control
from images.foreign.paths import Word, find_flaw
from images.foreign.tars import Tar
from images.host import limits
from images.host.errors import WorldFault


@dataclass(frozen=True, order=True)
class Deb:
    """A Debian package: name, version and architecture (Debian Policy 5.6), its file's name and sha256."""

    package: Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9+.-]+\z")]
    version: Annotated[str, StringConstraints(pattern=r"\A([0-9]+:)?[0-9][0-9A-Za-z.+~:-]*\z")]
    architecture: Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9-]*\z")]
    filename: str
    sha256: str


@dataclass(frozen=True)
class Debian:
    """Debian's part: the suite, the packages that were asked for, every package, and the sources.list of a base."""

    suite: Word
    packages: tuple[Word, ...]
    sources: str
    debs: tuple[Deb, ...]


# Debian packages read without dpkg (deb(5)), within bounds: whoever wrote a lock may have written its packages.

MAGIC, HEADER = b"!<arch>\n", 60
# What dpkg-deb writes, in this order; every package of the suites that have a row is packed by xz.
MEMBERS = ("debian-binary", "control.tar.xz", "data.tar.xz")
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
SCRIPT = re.compile(r"[A-Za-z0-9_-]+")  # the name of a control file
REMEDY = "make a new lock (build.py lock); a package of Debian's own is never like that"
UNREADABLE = (tarfile.TarError, lzma.LZMAError, ValueError)


@dataclass(frozen=True)
class Package:
    """What a package says of itself, its control files in their order, and its files as a tar that is not packed.

    data: empty if only the others were asked for.
    """

    about: dict[str, str]
    control: dict[str, tuple[bytes, int]]
    data: bytes = field(repr=False)

    @property
    def name(self) -> str:
        return self.about["Package"]

    @property
    def version(self) -> str:
        return self.about["Version"]

    @property
    def listed(self) -> str:
        """Return how dpkg names its files in /var/lib/dpkg/info."""
        return f"{self.name}:{self.about['Architecture']}" if self.about.get("Multi-Arch") == "same" else self.name

    def text(self, name: str) -> str:
        """Return a control file as text, empty where there is none."""
        return self.control.get(name, (b"", 0))[0].decode(errors="replace")


def load_package(path: Path) -> Package:
    """Read a package.

    Raises WorldFault for what is none, or unpacks to too much.
    """
    return parse_package(path.read_bytes(), path.name)


def load_control(path: Path) -> Package:
    """Read what a package says of itself and its control files; its files, which may be large, stay packed.

    Raises WorldFault as `load_package` does.
    """
    return parse_package(path.read_bytes(), path.name, data=False)


def parse_package(content: bytes, called: str, *, data: bool = True) -> Package:
    """Read a package out of its bytes, with its files or without them; `called` is what messages say of it.

    Raises WorldFault for what is none, or unpacks to too much.
    """
    try:
        return _read_parts(content, data)
    except UNREADABLE as error:
        raise WorldFault("a file is no Debian package that can be used", f"{called}: {error}", REMEDY) from error


def read_entries(package: Package) -> Iterator[tuple[str, tarfile.TarInfo, bytes]]:
    """Yield what a package brings: path without `./`, its entry in the tar, and its content.

    Raises WorldFault for paths outside of the root, and for what is neither a file, a directory nor a link.
    """
    try:
        tar = Tar(io.BytesIO(package.data))
        for info in tar:
            yield _read_path(info), info, tar.read()
    except UNREADABLE as error:
        value = f"{package.name} {package.version}: {error}"
        raise WorldFault("a Debian package has files that no image can have", value, REMEDY) from error


def _read_parts(content: bytes, with_data: bool) -> Package:
    names, parts = zip(*read_members(content), strict=True)
    if names != MEMBERS or not parts[0].startswith(b"2."):
        raise ValueError(f"its members are {', '.join(names)[:80]!r}, not {', '.join(MEMBERS)} of format 2")
    _, control_part, data_part = parts
    control_files = _control(unpacked(control_part, limits.DEB.of(len(control_part))))
    data = unpacked(data_part, limits.DEB.of(len(data_part))) if with_data else b""
    about = control.parse_fields(control_files.get("control", (b"", 0))[0].decode())
    for name in ("Package", "Version", "Architecture"):
        if not about.get(name, "").isprintable() or not about.get(name):
            raise ValueError(f"its control file has no {name}")
    if not NAME.fullmatch(about["Package"]):
        raise ValueError(f"its name is {about['Package'][:80]!r}")
    return Package(about, control_files, data)


def read_members(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the members of an archive of ar, whose names are short, as dpkg-deb writes it.

    Raises ValueError for what is none.
    """
    if not content.startswith(MAGIC):
        raise ValueError("it does not begin as one")
    at = len(MAGIC)
    while at < len(content):
        head = content[at : at + HEADER]
        size = head[48:58].rstrip(b" ")
        if len(head) < HEADER or head[58:] != b"`\n" or not re.fullmatch(b"[0-9]+", size):
            raise ValueError(f"no header of a member at byte {at}")
        start, end = at + HEADER, at + HEADER + int(size)
        if end > len(content):
            raise ValueError("it is cut short")
        yield head[:16].decode("ascii").rstrip(" ").rstrip("/"), content[start:end]
        at = end + int(size) % 2


def unpacked(data: bytes, most: int) -> bytes:
    """Unpack what xz has packed.

    Raises ValueError for more than `most` bytes, and what is cut short.
    """
    unpacker = lzma.LZMADecompressor()
    content = unpacker.decompress(data, most + 1)
    if len(content) > most or not unpacker.eof:
        raise ValueError(f"it unpacks to more than {most} bytes" if len(content) > most else "it is cut short")
    return content


def _control(data: bytes) -> dict[str, tuple[bytes, int]]:
    control_files, tar = {}, Tar(io.BytesIO(data))
    for info in tar:
        name = info.name.removeprefix("./")
        if info.isreg() and SCRIPT.fullmatch(name):
            control_files[name] = (tar.read(), info.mode & 0o777)
    return control_files


def _read_path(info: tarfile.TarInfo) -> str:
    """Return a path in a package as a layer has it: "" for the root itself."""
    path = info.name.removeprefix("./").removeprefix("/")
    if path not in ("", ".") and (flaw := find_flaw(path)):
        raise ValueError(f"{info.name[:200]!r} {flaw}")
    if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        raise ValueError(f"{info.name[:200]!r} is neither file, directory nor link")
    return "" if path == "." else path
