"""Wheel -> files in a layer, by the rules of `installer`, with a RECORD that stays true."""

from __future__ import annotations

import hashlib
import io
import posixpath
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import installer
from installer.destinations import WheelDestination
from installer.records import RecordEntry
from installer.scripts import Script
from installer.utils import Scheme, construct_record_file, fix_shebang

from images.base.base import Site
from images.host.store import CHUNK
from images.layers import trim
from images.layers.oneccl import SharedFile
from images.oci.layer import LayerWriter
from images.wheels import archive, symbols
from images.wheels.archive import CheckedWheel
from images.wheels.record import hash_of, refuse_content, sha256_of
from images.wheels.symbols import Outline

LARGE = 4 << 20  # bytes


def schemes(site: Site, project: str) -> dict[str, str]:
    """Return the directory of each scheme; all but the modules go to /usr/local, where the entrypoint finds them."""
    return {
        "purelib": site.directory,
        "platlib": site.directory,
        "scripts": "usr/local/bin",
        "data": "usr/local",
        "headers": f"usr/local/include/python{site.python}/{project}",
    }


class Destination(WheelDestination):
    """Write one wheel into a layer."""

    def __init__(
        self, layer: LayerWriter, wheel: CheckedWheel, site: Site, pyc: Mapping[str, bytes],
        shared: Mapping[str, SharedFile], *, trimmed: bool,
    ) -> None:  # fmt: skip
        project = wheel.distribution.replace("_", "-").lower()
        self._layer, self._wheel, self._pyc, self._shared = layer, wheel, pyc, shared
        self._directories, self._command = schemes(site, project), site.command
        self._tag = f"cpython-{site.python.replace('.', '')}"
        self._trim = trim.pattern(project) if trimmed else None
        self._symbols = trim.symbols(project) if trimmed else None
        self._compiled: list[tuple[Scheme, RecordEntry]] = []
        self._left_out: set[tuple[str, str]] = set()

    def write_script(self, name: str, module: str, attr: str, section: str) -> RecordEntry:
        """Write the start script of an entry point."""
        name, data = Script(name, module, attr, section).generate(self._command, "posix")  # type: ignore[arg-type]
        digest = self._add("scripts", name, data, executable=True)
        return RecordEntry(name, hash_of(digest), len(data))

    def write_file(self, scheme: Scheme, path: object, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        """Write one file of the wheel, and its bytecode after it.

        Raises ValueError when its content is not what RECORD says.
        """
        name = str(path)
        if self._trim and self._trim.match(_in_wheel(scheme, name)):
            self._left_out.add((scheme, name))
            return RecordEntry(name, None, None)
        if scheme in ("purelib", "platlib") and name in self._shared:
            return self._link(scheme, name, self._shared[name])
        expected = self._wheel.expected(scheme, name)
        if expected and _has_sha256(expected) and (kept := self._outline(scheme, name)):
            return self._stripped(scheme, name, expected, kept, stream, executable=is_executable)
        if expected and scheme != "scripts" and _is_large(expected) and name not in self._pyc:
            return self._stream(scheme, name, expected, stream, executable=is_executable)
        data = archive.content(stream, expected)
        if scheme == "scripts":
            return self._write_program(name, data, expected, executable=is_executable)
        digest = self._add(scheme, name, data, executable=is_executable)
        if expected:
            refuse_content(expected, data, digest)
        if scheme in ("purelib", "platlib") and name in self._pyc:
            self._write_bytecode(scheme, name)
        return RecordEntry(name, hash_of(digest), len(data))

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        """Write RECORD: what was written, without what was left out."""
        kept = [(where, entry) for where, entry in records if (where, entry.path) not in self._left_out]

        def prefix(where: str) -> str | None:
            if self._directories[where] == self._directories[scheme]:
                return None
            return posixpath.relpath(self._directories[where], self._directories[scheme]) + "/"

        with construct_record_file([*kept, *self._compiled], prefix) as stream:
            self._layer.file(f"{self._directories[scheme]}/{record_file_path}", stream.read())

    def _add(self, scheme: str, path: str, data: bytes, *, executable: bool) -> str:
        return self._layer.file(f"{self._directories[scheme]}/{path}", data, 0o755 if executable else 0o644)

    def _stream(
        self, scheme: Scheme, name: str, expected: RecordEntry, stream: BinaryIO, *, executable: bool
    ) -> RecordEntry:
        """Write a large file without holding it in memory, by the hash that RECORD says, and compare that."""
        place, mode = f"{self._directories[scheme]}/{name}", 0o755 if executable else 0o644
        size, said = expected.size or 0, sha256_of(expected)
        chunks = (stream.read(min(CHUNK, size - start)) for start in range(0, size, CHUNK))
        refuse_content(expected, b"", self._layer.stream(place, chunks, said, size, mode))
        return RecordEntry(name, hash_of(said), size)

    def _outline(self, scheme: Scheme, name: str) -> Outline | None:
        """Return what stays of a library that loses its symbols."""
        loses = self._symbols and self._symbols.match(_in_wheel(scheme, name))
        return self._wheel.outline(name) if loses else None

    def _stripped(
        self, scheme: Scheme, name: str, expected: RecordEntry, kept: Outline, stream: BinaryIO, *, executable: bool
    ) -> RecordEntry:
        """Write a library without its symbols; the whole of it is compared with what RECORD says."""
        place, mode, whole = f"{self._directories[scheme]}/{name}", 0o755 if executable else 0o644, hashlib.sha256()
        content = f"{sha256_of(expected)} without symbols"
        written = self._layer.stream(place, symbols.without(stream, kept, whole.update), content, kept.size, mode)
        refuse_content(expected, b"", whole.hexdigest())
        return RecordEntry(name, hash_of(written), kept.size)

    def _write_program(self, path: str, data: bytes, expected: RecordEntry | None, *, executable: bool) -> RecordEntry:
        """Write a file of the scheme `scripts`, whose first line may change."""
        if expected:
            refuse_content(expected, data, hashlib.sha256(data).hexdigest())
        with fix_shebang(io.BytesIO(data), self._command) as stream:
            fixed = stream.read()
        digest = self._add("scripts", path, fixed, executable=executable)
        return RecordEntry(path, hash_of(digest), len(fixed))

    def _link(self, scheme: Scheme, path: str, other: SharedFile) -> RecordEntry:
        """Write a link instead of a second copy; RECORD says what is read through it."""
        self._layer.link(f"{self._directories[scheme]}/{path}", posixpath.relpath(other.path, posixpath.dirname(path)))
        return RecordEntry(path, hash_of(other.sha256), other.size)

    def _write_bytecode(self, scheme: Scheme, path: str) -> None:
        directory, name = posixpath.split(path)
        compiled = posixpath.join(directory, "__pycache__", f"{name.removesuffix('.py')}.{self._tag}.pyc")
        self._layer.file(f"{self._directories[scheme]}/{compiled}", self._pyc[path])
        self._compiled.append((scheme, RecordEntry(compiled, None, None)))


def _is_large(entry: RecordEntry) -> bool:
    """Return whether a file is not to be held in memory, and RECORD has the sha256 that tells equal files."""
    return (entry.size or 0) > LARGE and _has_sha256(entry)


def _has_sha256(entry: RecordEntry) -> bool:
    """Return whether a file can be compared with RECORD while it passes; other hashes want the whole of it."""
    return entry.hash_ is not None and entry.hash_.name == "sha256"


def _in_wheel(scheme: str, path: str) -> str:
    return path if scheme in ("purelib", "platlib") else f"{scheme}/{path}"


def names(wheel: Path) -> list[str]:
    """Return the paths of the files in a wheel.

    Raises WorldFault when it cannot be installed.
    """
    with archive.opened(wheel) as opened:
        return opened.names


def write(
    layer: LayerWriter,
    wheel: Path,
    site: Site,
    pyc: Mapping[str, bytes],
    shared: Mapping[str, SharedFile],
    *,
    trimmed: bool,
) -> None:
    """Install a wheel into a layer; `pyc` maps the paths of its modules to their bytecode.

    Where another package of the image has a file for both, `shared` maps the path to it, and a link is written.
    Raises WorldFault when the wheel cannot be installed, or has another file where the layer has one already.
    """
    layer.source = wheel.name
    with archive.opened(wheel) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # installer warns of __pycache__ in wheels, which it leaves out
        destination = Destination(layer, opened, site, pyc, shared, trimmed=trimmed)
        installer.install(opened, destination, {archive.INSTALLER: b"multinode\n"})
    layer.source = ""
