"""Wheel -> files in a layer, by the rules of `installer`, with a RECORD that stays true."""

from __future__ import annotations

import io
import posixpath
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import installer
from installer.destinations import WheelDestination
from installer.records import RecordEntry
from installer.scripts import Script
from installer.utils import Scheme, construct_record_file, fix_shebang

from images.base.base import Site
from images.compiling import bytecode
from images.oci.layer_writer import LayerWriter
from images.wheels import archive
from images.wheels.archive import WheelArchive, WheelMember, hash_of, sha256_of

MODULES = ("purelib", "platlib")  # two schemes that are one directory here
IMPORTED = re.compile(r"\.(?:pyc?|pyi|pth|so|egg-link)(?:$|\.)", re.IGNORECASE)  # in names of what Python reads


def schemes(site: Site, project: str) -> dict[str, str]:
    """Return the directory of each scheme; all but the modules go to /usr/local, where the entrypoint finds them."""
    return {
        "purelib": site.directory,
        "platlib": site.directory,
        "scripts": "usr/local/bin",
        "data": "usr/local",
        "headers": f"usr/local/include/python{site.python}/{project}",
    }


@dataclass(frozen=True)
class Parts:
    """What goes into a layer with a wheel, or in the place of its files.

    `bytecode` is that of its modules, by their paths. `shared` are files that another package of the image has for
    both, by the path that a link is written at. `left_out` is what the paths of files match that no image needs.
    """

    bytecode: Mapping[str, bytes]
    shared: Mapping[str, RecordEntry]
    left_out: re.Pattern[str]


class Destination(WheelDestination):
    """Write one wheel into a layer."""

    def __init__(self, layer: LayerWriter, wheel: WheelArchive, site: Site, parts: Parts) -> None:
        project = wheel.distribution.replace("_", "-").lower()
        self._layer, self._wheel, self._pyc, self._shared = layer, wheel, parts.bytecode, parts.shared
        self._directories, self._site = schemes(site, project), site
        self._trim = parts.left_out
        self._compiled: list[tuple[Scheme, RecordEntry]] = []
        self._left_out: set[tuple[str, str]] = set()
        self._starts: set[str] = set()  # places of the start scripts of entry points, which come first

    def write_script(self, name: str, module: str, attr: str, section: str) -> RecordEntry:
        """Write the start script of an entry point."""
        name, data = Script(name, module, attr, section).generate(self._site.command, "posix")  # type: ignore[arg-type]
        self._starts.add(self._place("scripts", name))
        digest = self._layer.file(self._place("scripts", name), data, 0o755)
        return RecordEntry(name, hash_of(digest), len(data))

    def write_file(self, scheme: Scheme, path: object, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        """Write one file of the wheel, and its bytecode after it.

        Not written are what is left out, a program with the name of an entry point, which wins as with pip, and where
        another wheel has such a file already, one at the top that nothing imports, such as a licence.
        """
        name, mode = str(path), 0o755 if is_executable else 0o644
        if self._place(scheme, name) in self._starts:
            return RecordEntry(name, None, None)
        if self._trim.match(_in_wheel(scheme, name)) or self._is_taken(scheme, name, stream, mode):
            self._left_out.add((scheme, name))
            return RecordEntry(name, None, None)
        if scheme in MODULES and name in self._shared:
            return self._link(scheme, name, self._shared[name])
        digest, size = self._copy(scheme, name, stream, mode)
        if scheme in MODULES and name in self._pyc:
            compiled = bytecode.bytecode_path(name, self._site.python)
            self._layer.file(f"{self._directories[scheme]}/{compiled}", self._pyc[name])
            self._compiled.append((scheme, RecordEntry(compiled, None, None)))
        return RecordEntry(name, hash_of(digest), size)

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        """Write RECORD: what was written, without what was left out."""
        kept: dict[str, tuple[Scheme, RecordEntry]] = {}
        for where, entry in records:
            if (where, entry.path) not in self._left_out:
                kept.setdefault(self._place(where, entry.path), (where, entry))

        def prefix(where: str) -> str | None:
            if self._directories[where] == self._directories[scheme]:
                return None
            return posixpath.relpath(self._directories[where], self._directories[scheme]) + "/"

        with construct_record_file([*kept.values(), *self._compiled], prefix) as stream:
            self._layer.file(f"{self._directories[scheme]}/{record_file_path}", stream.read())

    def _place(self, scheme: str, path: str) -> str:
        return f"{self._directories[scheme]}/{path}"

    def _is_taken(self, scheme: str, path: str, stream: object, mode: int) -> bool:
        """Return whether a file that nothing imports has the place of another wheel's."""
        may_be = scheme in MODULES and "/" not in path and not IMPORTED.search(path)
        digest = self._stated_digest(stream) or "not known"
        return may_be and self._layer.has_other(self._place(scheme, path), digest, mode)

    def _stated_digest(self, stream: object) -> str | None:
        """Return the sha256 that RECORD has of a file of the wheel; None where it has another hash."""
        return sha256_of(self._wheel.rows.get(stream.info.filename)) if isinstance(stream, WheelMember) else None

    def _copy(self, scheme: Scheme, path: str, stream: BinaryIO, mode: int) -> tuple[str, int]:
        """Write a file and return its sha256 and its size; a program may get another first line.

        Nothing is read of a file by whose sha256 in RECORD the layer has it already.
        """
        member: object = stream
        place = self._place(scheme, path)
        if scheme == "scripts":
            with fix_shebang(io.BytesIO(stream.read()), self._site.command) as fixed:
                data = fixed.read()
        elif isinstance(member, WheelMember) and (digest := self._stated_digest(member)):
            self._layer.stream(place, member.chunks(), digest, member.info.file_size, mode)
            return digest, member.info.file_size
        else:
            data = stream.read()
        return self._layer.file(place, data, mode), len(data)

    def _link(self, scheme: Scheme, path: str, other: RecordEntry) -> RecordEntry:
        """Write a link instead of a second copy; RECORD says what is read through it."""
        self._layer.link(f"{self._directories[scheme]}/{path}", posixpath.relpath(other.path, posixpath.dirname(path)))
        return RecordEntry(path, other.hash_, other.size)


def _in_wheel(scheme: str, path: str) -> str:
    return path if scheme in MODULES else f"{scheme}/{path}"


def write_wheel(layer: LayerWriter, wheel: Path, site: Site, parts: Parts) -> None:
    """Install a wheel into a layer, whose files are what RECORD says: `read_content` has compared them.

    Raises WorldFault when the wheel cannot be installed, or has another file where the layer has one already.
    """
    layer.source = wheel.name
    with archive.open_wheel(wheel) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # installer warns of __pycache__ in wheels, which it leaves out
        destination = Destination(layer, opened, site, parts)
        installer.install(opened, destination, {archive.INSTALLER: b"multinode\n"})
    layer.source = ""
