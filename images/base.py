"""The lowest layer: a Debian root file system by mmdebstrap, cleaned of everything that differs between two runs."""

from __future__ import annotations

import datetime
import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from images import catalog, process
from images.errors import WorldFault
from images.layer import EPOCH, ZSTD_LEVEL, Ground, Layer, Written
from images.store import Store, key_of

RECIPE = 1  # raise it when a change below changes the bytes

# Left out of every package, now and by every later apt-get in a derived image, as in Debian's own slim images.
DPKG_OPTIONS = (
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/lib/python3*/EXTERNALLY-MANAGED",  # pip works in an image as anywhere else
)

# What mmdebstrap leaves and an image must not have: pattern over paths, reason.
CLEANED = (
    (r"dev/.", "devices are the engine's"),
    (r"etc/ssh/ssh_host_", "a host key in an image is everybody's key"),
    (r"etc/(hostname|resolv\.conf)$", "of the machine that built it"),
    (r"etc/machine-id$|var/lib/dbus/machine-id$", "one for each machine"),
    (r"var/log/.+", "logs of the installation"),
    (r"var/cache/(apt|ldconfig|debconf/.*-old)", "caches, with times inside"),
    (r"var/lib/apt/lists/.", "lists of a day"),
    (r"var/lib/dpkg/.*-old$|etc/.*-$", "copies from before the last change"),
    (r"etc/\.pwd\.lock$|var/lib/dpkg/(lock|triggers/Lock)", "locks"),
    (r"(tmp|run)/.", "of the moment"),
)
DIRTY = re.compile("|".join(f"(?:{pattern})" for pattern, _ in CLEANED))

REMEDY = "sudo apt-get install mmdebstrap debian-archive-keyring"


@dataclass(frozen=True)
class Debian:
    """A finished base: its layer, what later layers must know of it, and its packages as name -> version."""

    written: Written
    ground: Ground
    packages: Mapping[str, str]
    passwd: str
    day: str


def make(store: Store, row: catalog.Base, today: datetime.date, environ: Mapping[str, str]) -> tuple[Debian, bool]:
    """Take the base from the store if it was made today, else make it; answer it, and whether it was there.

    When the mirror cannot be reached, an older one is better than none.
    """
    recipe = key_of([RECIPE, row.suite, row.packages, DPKG_OPTIONS, CLEANED, EPOCH, ZSTD_LEVEL])
    known = _known(store, recipe)
    if known and known.day == today.isoformat():
        return known, True
    try:
        made = _build(store, row, today, environ)
    except WorldFault:
        if known is None:
            raise
        return known, True
    store.write_record("bases", recipe, _plain(made))
    return made, bool(known and known.written == made.written)


def _known(store: Store, recipe: str) -> Debian | None:
    record = store.record("bases", recipe)
    if record is None or store.blob(record["written"][1]) is None:
        return None
    folders = {path: (mode, uid, gid) for path, (mode, uid, gid) in record["folders"].items()}
    ground = Ground(folders, record["links"])
    return Debian(Written(*record["written"]), ground, record["packages"], record["passwd"], record["day"])


def _plain(made: Debian) -> dict[str, object]:
    w = made.written
    return {
        "written": [w.diff_id, w.digest, w.size, w.unpacked],
        "folders": made.ground.folders,
        "links": made.ground.links,
        "packages": made.packages,
        "passwd": made.passwd,
        "day": made.day,
    }


def _build(store: Store, row: catalog.Base, today: datetime.date, environ: Mapping[str, str]) -> Debian:
    with store.aside() as raw, store.aside() as out:
        _bootstrap(row, raw, environ)
        with tarfile.open(raw) as source, Layer(out, Ground()) as layer:
            for info, data in cleaned(source):
                layer.copy(info, data)
            written = layer.finish()
        facts = _facts(raw)
        store.keep(out, written.digest)
    return Debian(written, facts[0], facts[1], facts[2], today.isoformat())


def _bootstrap(row: catalog.Base, out: Path, environ: Mapping[str, str]) -> None:
    options = [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    command = ["mmdebstrap", "--variant=minbase", "--format=tar", "--include=" + ",".join(row.packages)]
    path = environ.get("PATH", "") + ":/usr/sbin:/sbin"
    env = {**environ, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": path}
    done = process.run([*command, *options, row.suite, str(out)], env, REMEDY)
    if done.code:
        said = [line for line in done.err.splitlines() if line.startswith("E:")] or done.err.strip().splitlines()[-1:]
        remedy = "check that Debian's mirror can be reached and the disk has 1 GB free; not root? " + (
            "newuidmap (package uidmap) and a range in /etc/subuid are needed, or build once as root"
        )
        raise WorldFault("mmdebstrap could not make the base", " ".join(said) or f"exit code {done.code}", remedy)


def cleaned(source: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield the entries that belong into an image, with times no later than EPOCH, paths without `./`."""
    for info in source:
        info.name = info.name.removeprefix("./").rstrip("/")
        if info.name in ("", ".") or DIRTY.match(info.name):
            continue
        if info.islnk():
            info.linkname = info.linkname.removeprefix("./")
        data = source.extractfile(info) if info.isreg() else None
        if data and info.name.endswith(".pyc"):
            data = io.BytesIO(_with_time_of_source(data.read()))
        info.mtime = min(int(info.mtime), EPOCH)
        info.uname = info.gname = ""
        info.pax_headers = {}
        yield info, data


def _with_time_of_source(pyc: bytes) -> bytes:
    """Clamp the source's time in a .pyc (bytes 8 to 12, PEP 552) as the tar clamps the source's own."""
    flags, mtime = int.from_bytes(pyc[4:8], "little"), int.from_bytes(pyc[8:12], "little")
    return pyc if flags else pyc[:8] + min(mtime, EPOCH).to_bytes(4, "little") + pyc[12:]


def _facts(raw: Path) -> tuple[Ground, dict[str, str], str]:
    folders, links = {}, {}
    texts = {"var/lib/dpkg/status": "", "etc/passwd": ""}
    with tarfile.open(raw) as source:
        for info in source:
            name = info.name.removeprefix("./").rstrip("/")
            if info.isdir() and name:
                folders[name] = (info.mode, info.uid, info.gid)
            elif info.issym() and "/" not in name:
                links[name] = info.linkname.lstrip("/")
            elif name in texts:
                texts[name] = _text(source, info)
    return Ground(folders, links), packages(texts["var/lib/dpkg/status"]), texts["etc/passwd"]


def _text(source: tarfile.TarFile, info: tarfile.TarInfo) -> str:
    file = source.extractfile(info)
    return file.read().decode() if file else ""


def packages(status: str) -> dict[str, str]:
    """Read dpkg's status file: name -> version (deb-control(5))."""
    found = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if re.match(r"[A-Z][A-Za-z-]*: ", line))
        if "Package" in fields and "Version" in fields:
            found[fields["Package"]] = fields["Version"]
    return found
