"""What is in a wheel, read once, when it arrives: its files are what RECORD says, and their names are in order.

The rules are those of PyPA, "Binary distribution format", as pip and `installer` apply them; where those would write
outside of a directory, run out of memory or never end, a wheel is refused. Layers take a file by the hash in RECORD
afterwards, and compare nothing twice.
"""

from __future__ import annotations

import configparser
import hashlib
from pathlib import Path
from typing import NamedTuple, cast

from installer.records import RecordEntry
from installer.utils import SCHEME_NAMES, parse_entrypoints
from packaging.metadata import RawMetadata, parse_email
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from images.foreign.paths import find_flaw
from images.host import limits
from images.store.blobs import Blobs
from images.wheels import archive
from images.wheels.archive import WheelArchive, WheelMember

UNLISTED = ("RECORD", "RECORD.jws", "RECORD.p7s", archive.INSTALLER)  # of .dist-info, which RECORD has no hash of
ALGORITHMS = ("sha256", "sha384", "sha512")  # "The hash algorithm must be sha256 or better."
# Of the core metadata; the description, which is a whole README, is not among it.
FIELDS = (
    "name", "version", "summary", "home_page", "project_urls", "license", "license_expression", "classifiers",
    "requires_dist",
)  # fmt: skip


class WheelContent(NamedTuple):
    """What later steps ask of a wheel: the modules at its top, in order, and of its METADATA the FIELDS that it has."""

    modules: list[str]
    metadata: RawMetadata


def read_content(store: Blobs, digest: str, path: Path) -> WheelContent:
    """Return what is in a wheel, after all of it was checked; the store keeps what was read.

    Raises WorldFault when a file is another one than RECORD says, or the wheel cannot be installed.
    """
    # The name of the file, too, is compared with what is in it.
    return WheelContent(*store.cached("wheel contents", [digest, path.name], lambda: _read_wheel(path)).value)


def _read_wheel(path: Path) -> WheelContent:
    with archive.open_wheel(path) as wheel:
        _check_size(wheel, path.stat().st_size)
        for name in wheel.members:
            _check_name(wheel, name)
        _check_scripts(wheel)
        _check_files(wheel)
        metadata_fields, _ = parse_email(wheel.read_dist_info("METADATA"))
        _check_metadata(metadata_fields, path.name)
        modules = sorted({module for name in wheel.members if (module := _module(name))})
    metadata = {name: value for name, value in metadata_fields.items() if name in FIELDS}
    return WheelContent(modules, cast("RawMetadata", metadata))


def _check_size(wheel: WheelArchive, size: int) -> None:
    """Raise ValueError for a bomb; `size` is the archive's own."""
    unpacked = sum(member.info.file_size for member in wheel.members.values())
    if unpacked > limits.WHEEL.of(size):
        raise ValueError(f"{size} bytes would unpack to {unpacked}")


def _check_name(wheel: WheelArchive, name: str) -> None:
    if flaw := find_flaw(name):
        raise ValueError(f"the name {name!r} {flaw}")
    head, _, rest = name.partition("/")
    if head != wheel.data_dir and not (rest and head.endswith(".data")):
        return
    scheme, _, path = rest.partition("/")
    # pip takes any such directory for this wheel's; `installer` would put its files among the modules.
    if head != wheel.data_dir or scheme not in SCHEME_NAMES or not path:
        raise ValueError(f"{name!r} is in no directory of {wheel.data_dir} that is known")


def _check_scripts(wheel: WheelArchive) -> None:
    if f"{wheel.dist_info_dir}/entry_points.txt" in wheel.members:
        try:
            list(parse_entrypoints(wheel.read_dist_info("entry_points.txt")))
        except (configparser.Error, AssertionError) as error:  # the last is how `installer` refuses it
            raise ValueError("entry_points.txt cannot be read, or has a script that is not MODULE:FUNCTION") from error


def _check_metadata(metadata: RawMetadata, filename: str) -> None:
    """Raise ValueError where METADATA is of another release than the name of the file says: pip refuses that, too."""
    name, version, *_ = parse_wheel_filename(filename)
    if (canonicalize_name(metadata.get("name", "")), Version(metadata.get("version", ""))) != (name, version):
        raise ValueError(f"METADATA is of {metadata.get('name')} {metadata.get('version')}")


def _check_files(wheel: WheelArchive) -> None:
    """Compare every file with RECORD."""
    unlisted = {f"{wheel.dist_info_dir}/{name}" for name in UNLISTED}
    for name, member in wheel.members.items():
        row = wheel.rows.get(name)
        if name not in unlisted or (row is not None and row.hash_ is not None):
            _compare(member, row)


def _compare(member: WheelMember, row: RecordEntry | None) -> None:
    """Raise ValueError when the content of a file is not what RECORD says."""
    if row is None or row.hash_ is None or row.hash_.name not in ALGORITHMS:
        raise ValueError(f"RECORD has no strong hash of {member.info.filename!r}")
    hashed = hashlib.new(row.hash_.name)
    for chunk in member.chunks():
        hashed.update(chunk)
    if archive.encoded(hashed.digest()) != row.hash_.value:
        raise ValueError(f"RECORD has another hash of {row.path!r}")


def _module(path: str) -> str | None:
    """Return the module of a path in a wheel if it is at the top: `name/__init__.py`, `name.py` or an extension."""
    head, _, rest = path.partition("/")
    if rest == "__init__.py" and head.isidentifier():
        return head
    stem = head.partition(".")[0]
    return stem if not rest and head.endswith((".py", ".so")) and stem.isidentifier() else None
