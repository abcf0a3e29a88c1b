"""A plain-Python project without a wheel -> a wheel, laid out from its source archive without running it."""

from __future__ import annotations

import io
import posixpath
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from images.host.errors import WorldFault
from images.host.store import Store, sha256
from images.lock.lock import SourceOnly

WHEEL = "Wheel-Version: 1.0\nGenerator: multinode\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def to_wheel(store: Store, archive: Path, digest: str, row: SourceOnly) -> tuple[str, str]:
    """Make the wheel, or find it in the store; answer its sha256 and file name.

    Raises WorldFault when the archive has no package of that name.
    """
    stem = f"{row.name.replace('-', '_')}-{row.version}"
    name = f"{stem}-py3-none-any.whl"

    def make() -> str:
        with store.aside() as path:
            path.write_bytes(_pack({**_modules(archive, row), **_metadata(archive, row, stem)}, f"{stem}.dist-info"))
            made = sha256(path)
            store.keep(path, made, name)
        return made

    inputs = [digest, row.name, row.version, row.requires]
    made = store.cached("sdists", inputs, make, lambda known: store.blob(known, name) is not None)
    return str(made.value), name


def _modules(archive: Path, row: SourceOnly) -> dict[str, bytes]:
    package = row.name.replace("-", "_")
    files = {name: data for name, data in _members(archive).items() if name.startswith(f"{package}/")}
    if f"{package}/__init__.py" not in files:
        remedy = "take the row out of images/versions.toml, or give a wheel by --wheelhouse"
        raise WorldFault("a source archive has no package of its name", f"{archive.name}: {package}", remedy)
    return files


def _members(archive: Path) -> dict[str, bytes]:
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file:
                found[posixpath.normpath(member.name).partition("/")[2]] = file.read()
    return found


def _metadata(archive: Path, row: SourceOnly, stem: str) -> Mapping[str, bytes]:
    """Take PKG-INFO, whose requirements may be missing, and state them from the table."""
    head, _, body = _members(archive)["PKG-INFO"].decode().partition("\n\n")
    lines = [line for line in head.splitlines() if not line.startswith(("Requires-Dist:", "Provides-Extra:"))]
    lines += [f"Requires-Dist: {requirement}" for requirement in row.requires]
    return {
        f"{stem}.dist-info/METADATA": ("\n".join(lines) + "\n\n" + body).encode(),
        f"{stem}.dist-info/WHEEL": WHEEL.encode(),
        f"{stem}.dist-info/top_level.txt": f"{row.name.replace('-', '_')}\n".encode(),
    }


def _pack(files: Mapping[str, bytes], info: str) -> bytes:
    """Write a zip with fixed times; RECORD is written anew at installation, so a list of names will do."""
    record = "".join(f"{name},,\n" for name in [*sorted(files), f"{info}/RECORD"])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in [*sorted(files.items()), (f"{info}/RECORD", record.encode())]:
            archive.writestr(zipfile.ZipInfo(name, date_time=(2024, 1, 1, 0, 0, 0)), data)
    return out.getvalue()
