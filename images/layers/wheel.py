"""Wheel -> files in a layer, by the rules of `installer`, with a RECORD that stays true."""

from __future__ import annotations

import base64
import io
import posixpath
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import installer
from installer.destinations import WheelDestination
from installer.exceptions import InstallerError
from installer.records import Hash, RecordEntry
from installer.scripts import Script
from installer.sources import WheelFile
from installer.utils import Scheme, construct_record_file, fix_shebang

from images.base.base import Site
from images.host.errors import WorldFault
from images.layers import trim
from images.layers.oneccl import Twin
from images.oci.layer import Layer


def schemes(site: Site, project: str) -> dict[str, str]:
    """Name the folders of each scheme; all but the modules go to /usr/local, where the entrypoint looks for them."""
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
        self, layer: Layer, project: str, site: Site, pyc: Mapping[str, bytes], twins: Mapping[str, Twin], *,
        trimmed: bool,
    ) -> None:  # fmt: skip
        self._layer, self._pyc, self._twins = layer, pyc, twins
        self._folders, self._command = schemes(site, project), site.command
        self._tag = f"cpython-{site.python.replace('.', '')}"
        self._trim = trim.pattern(project) if trimmed else None
        self._compiled: list[tuple[Scheme, RecordEntry]] = []
        self._left_out: set[tuple[str, str]] = set()

    def write_script(self, name: str, module: str, attr: str, section: str) -> RecordEntry:
        """Write the start script of an entry point."""
        name, data = Script(name, module, attr, section).generate(self._command, "posix")  # type: ignore[arg-type]
        return self._write(Scheme("scripts"), name, data, executable=True)

    def write_file(self, scheme: Scheme, path: object, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        """Write one file of the wheel, and its bytecode after it."""
        name = str(path)
        if self._trim and self._trim.match(_in_wheel(scheme, name)):
            self._left_out.add((scheme, name))
            return RecordEntry(name, None, None)
        if scheme in ("purelib", "platlib") and name in self._twins:
            return self._link(scheme, name, self._twins[name])
        if scheme == "scripts":
            with fix_shebang(io.BytesIO(stream.read()), self._command) as fixed:
                return self._write(scheme, name, fixed.read(), executable=is_executable)
        entry = self._write(scheme, name, stream.read(), executable=is_executable)
        if scheme in ("purelib", "platlib") and name in self._pyc:
            self._write_bytecode(scheme, name)
        return entry

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        """Write RECORD: what was written, without what was left out."""
        kept = [(where, entry) for where, entry in records if (where, entry.path) not in self._left_out]

        def prefix(where: str) -> str | None:
            if self._folders[where] == self._folders[scheme]:
                return None
            return posixpath.relpath(self._folders[where], self._folders[scheme]) + "/"

        with construct_record_file([*kept, *self._compiled], prefix) as stream:
            self._layer.file(f"{self._folders[scheme]}/{record_file_path}", stream.read())

    def _write(self, scheme: Scheme, path: str, data: bytes, *, executable: bool) -> RecordEntry:
        digest = self._layer.file(f"{self._folders[scheme]}/{path}", data, 0o755 if executable else 0o644)
        return RecordEntry(path, _hash(digest), len(data))

    def _link(self, scheme: Scheme, path: str, twin: Twin) -> RecordEntry:
        """Write a link instead of a second copy; RECORD says what is read through it."""
        self._layer.link(f"{self._folders[scheme]}/{path}", posixpath.relpath(twin.path, posixpath.dirname(path)))
        return RecordEntry(path, _hash(twin.sha256), twin.size)

    def _write_bytecode(self, scheme: Scheme, path: str) -> None:
        folder, name = posixpath.split(path)
        compiled = posixpath.join(folder, "__pycache__", f"{name.removesuffix('.py')}.{self._tag}.pyc")
        self._layer.file(f"{self._folders[scheme]}/{compiled}", self._pyc[path])
        self._compiled.append((scheme, RecordEntry(compiled, None, None)))


def _in_wheel(scheme: str, path: str) -> str:
    return path if scheme in ("purelib", "platlib") else f"{scheme}/{path}"


def _hash(digest: str) -> Hash:
    return Hash("sha256", base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("="))


def names(wheel: Path) -> list[str]:
    """List the paths in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def write(
    layer: Layer, wheel: Path, site: Site, pyc: Mapping[str, bytes], twins: Mapping[str, Twin], *, trimmed: bool
) -> None:
    """Install a wheel into a layer; `pyc` maps the paths of its modules to their bytecode.

    Where another package of the image has a file for both, `twins` says so, and a link is written.

    Raises WorldFault when the file is not a wheel that can be installed.
    """
    try:
        with WheelFile.open(wheel) as source, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # installer warns of __pycache__ in wheels, which it leaves out
            destination = Destination(layer, _project(source), site, pyc, twins, trimmed=trimmed)
            installer.install(source, destination, {"INSTALLER": b"multinode\n"})
    except (InstallerError, zipfile.BadZipFile, ValueError) as error:
        remedy = "ask whoever made the wheel for one that follows the specification, or leave the package out"
        raise WorldFault("cannot install a wheel", f"{wheel.name} ({error})", remedy) from error


def _project(source: WheelFile) -> str:
    return source.distribution.replace("_", "-").lower()
