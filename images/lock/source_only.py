"""A plain-Python project without a wheel -> a wheel, laid out from its source archive without running it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from images.foreign import tars
from images.host.errors import WorldFault
from images.plan.pins import SourceOnly
from images.store.blobs import sha256
from images.store.store import Store
from images.wheels.archive import write_record

WHEEL = "Wheel-Version: 1.0\nGenerator: multinode\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
REMEDY = "--wheelhouse with a wheel of it, or the archive as its maker published it"


def to_wheel(store: Store, archive: Path, digest: str, row: SourceOnly) -> tuple[str, str]:
    """Return the sha256 and the file name of the wheel; build it if the store lacks it.

    Raises WorldFault when the archive cannot be read, or has no package of that name.
    """
    stem = f"{row.name.replace('-', '_')}-{row.version}"
    name = f"{stem}-py3-none-any.whl"

    def make() -> str:
        with store.temporary() as path:
            path.write_bytes(_pack_zip(_read_package(archive, row, stem), f"{stem}.dist-info"))
            packed = sha256(path)
            store.keep(path, packed, name)
        return packed

    inputs = [digest, row.name, row.version, row.requires]
    cached = store.cached("sdists", inputs, make, lambda known: store.blob(known, name) is not None)
    return str(cached.value), name


def _read_package(archive: Path, row: SourceOnly, stem: str) -> dict[str, bytes]:
    """Return the files of the wheel: those of the package, and its metadata."""
    package = row.name.replace("-", "_")
    try:
        files = tars.read_files(archive, lambda path: path == "PKG-INFO" or path.startswith(f"{package}/"))
        taken = {path: data for path, data, _ in files}
        about = taken.pop("PKG-INFO", b"").decode()
    except ValueError as error:
        raise WorldFault("cannot read a source archive", f"{archive.name} ({error})", REMEDY) from error
    if not about:
        raise WorldFault("a source archive has no metadata", f"{archive.name}: PKG-INFO", REMEDY)
    if f"{package}/__init__.py" not in taken:
        remedy = "take the row out of images/versions.toml, or give a wheel by --wheelhouse"
        raise WorldFault("a source archive has no package of its name", f"{archive.name}: {package}", remedy)
    return {**taken, **_read_metadata(about, row, stem)}


def _read_metadata(about: str, row: SourceOnly, stem: str) -> Mapping[str, bytes]:
    """Return the metadata of PKG-INFO, whose requirements may be missing, with those of the table."""
    head, _, body = about.partition("\n\n")
    lines = [line for line in head.splitlines() if not line.startswith(("Requires-Dist:", "Provides-Extra:"))]
    lines += [f"Requires-Dist: {requirement}" for requirement in row.requires]
    return {
        f"{stem}.dist-info/METADATA": ("\n".join(lines) + "\n\n" + body).encode(),
        f"{stem}.dist-info/WHEEL": WHEEL.encode(),
        f"{stem}.dist-info/top_level.txt": f"{row.name.replace('-', '_')}\n".encode(),
    }


def _pack_zip(files: Mapping[str, bytes], info: str) -> bytes:
    """Return a zip with fixed times and a RECORD."""
    listed = dict(sorted(files.items()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {**listed, f"{info}/RECORD": write_record(listed, info).encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=(2024, 1, 1, 0, 0, 0)), data)
    return out.getvalue()
