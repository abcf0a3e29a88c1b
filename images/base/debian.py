"""The lowest layer: a root file system from exact .debs by mmdebstrap, cleaned of all that differs between two runs."""

from __future__ import annotations

import io
import posixpath
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from images.base import repository
from images.base.apt import ALWAYS, REMEDY, Choice, Deb, Wanted, complaint
from images.base.installed import debian_packages
from images.host import process
from images.host.errors import WorldFault
from images.host.store import Store
from images.oci.layer import EPOCH, Ground, Layer, Written

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

LIBRARY = re.compile(r"\.so(\.[0-9.]+)?$")

# Put into the root while it is made: nobody needs one that survives a power cut before it is a tar.
UNSAFE = "etc/dpkg/dpkg.cfg.d/unsafe-io"
SOURCES = f"{repository.FOLDER}/sources.list"
# apt runs outside of the root, whose place only the hooks know: as root and in a user namespace alike.
BEFORE = f'echo "deb [trusted=yes] file:$1/{repository.FOLDER} ./" >"$1/etc/apt/sources.list"'
AFTER = f'mv "$1/{SOURCES}" "$1/etc/apt/sources.list" && rm -r "$1/{repository.FOLDER}" "$1/{UNSAFE}"'


@dataclass(frozen=True)
class Debian:
    """A finished base: its layer, what later layers must know of it, its packages as name -> version and as files.

    `libraries` are the paths of its shared libraries.
    """

    written: Written
    ground: Ground
    packages: Mapping[str, str]
    passwd: str
    debs: tuple[Deb, ...]
    libraries: tuple[str, ...] = ()


def make(store: Store, row: Wanted, choice: Choice, environ: Mapping[str, str]) -> tuple[Debian, bool]:
    """Make the base from exactly these packages, without network; answer it, and whether the store had it.

    The same packages give the same bytes. Raises WorldFault when one is not in the store.
    """
    parts = tuple(sorted(choice.debs))
    inputs = [row.suite, row.packages, [deb.sha256 for deb in parts], choice.sources]
    made = store.cached(
        "bases", inputs, lambda: _plain(_build(store, row, Choice(parts, choice.sources), environ)),
        lambda known: store.blob(known["written"][1]) is not None,
    )  # fmt: skip
    return _from_plain(made.value, parts), made.reused


def _from_plain(record: Mapping[str, Any], debs: tuple[Deb, ...]) -> Debian:
    folders = {path: (mode, uid, gid) for path, (mode, uid, gid) in record["folders"].items()}
    ground = Ground(folders, record["links"])
    written, libraries = Written(*record["written"]), tuple(record["libraries"])
    return Debian(written, ground, record["packages"], record["passwd"], debs, libraries)


def _plain(made: Debian) -> dict[str, object]:
    w = made.written
    return {
        "written": [w.diff_id, w.digest, w.size, w.unpacked],
        "folders": made.ground.folders,
        "links": made.ground.links,
        "packages": made.packages,
        "passwd": made.passwd,
        "libraries": made.libraries,
    }


def _build(store: Store, row: Wanted, choice: Choice, environ: Mapping[str, str]) -> Debian:
    path = environ.get("PATH", "") + ":/usr/sbin:/sbin"
    env = {**environ, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": path}
    with store.aside() as parts, store.aside() as raw, store.aside() as out:
        repository.write(store, choice.debs, {SOURCES: choice.sources, UNSAFE: "force-unsafe-io\n"}, parts, env)
        _bootstrap(row, parts, raw, env)
        ground, installed, passwd, libraries = _facts(raw)
        _check(choice.debs, installed)
        with tarfile.open(raw) as source, Layer(out, Ground()) as layer:
            for info, data in cleaned(source):
                layer.copy(info, data)
            written = layer.finish()
        store.keep(out, written.digest)
    return Debian(written, ground, installed, passwd, choice.debs, libraries)


def _bootstrap(row: Wanted, parts: Path, out: Path, env: Mapping[str, str]) -> None:
    command = ["mmdebstrap", "--variant=minbase", "--format=tar", "--skip=check/signed-by"]
    command += ["--architectures=amd64", "--include=" + ",".join([*ALWAYS, *row.packages])]
    command += [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    command += [
        f"--setup-hook=tar-in {shlex.quote(str(parts))} /",
        f"--setup-hook={BEFORE}",
        f"--customize-hook={AFTER}",
    ]
    nowhere = ""  # neither a suite nor a mirror: the first hook brings them
    done = process.run([*command, nowhere, str(out), nowhere], env, REMEDY)
    if done.code:
        remedy = "check that the disk and /tmp have 1 GB free; not root? " + (
            "newuidmap (package uidmap) and a range in /etc/subuid are needed, or build once as root"
        )
        raise WorldFault("mmdebstrap could not make the base", complaint(done), remedy)


def _check(debs: tuple[Deb, ...], installed: Mapping[str, str]) -> None:
    """Refuse a base that is not what the lock says: an archive may call a package required that does not say so."""
    left = {(deb.package, deb.version) for deb in debs} ^ set(installed.items())
    if left:
        names = ", ".join(sorted(f"{name} {version}" for name, version in left))
        remedy = "name them under packages in images/versions.toml, in the row of this base"
        raise WorldFault("packages of the base that nothing in it asks for", names, remedy)


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


def _facts(raw: Path) -> tuple[Ground, dict[str, str], str, tuple[str, ...]]:
    folders, links, libraries = {}, {}, []
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
            elif LIBRARY.search(name):
                libraries.append(name)
    ground = Ground(folders, links)
    paths = tuple(sorted(map(ground.resolve, libraries)))
    return ground, debian_packages(texts["var/lib/dpkg/status"]), texts["etc/passwd"], paths


def _text(source: tarfile.TarFile, info: tarfile.TarInfo) -> str:
    file = source.extractfile(info)
    return file.read().decode(errors="replace") if file else ""


def texts(store: Store, debian: Debian, names: Sequence[str]) -> dict[str, str]:
    """Read files out of the base's layer by their paths, in which `*` is any part of one name; answer path -> text.

    Links count as files, and so do the paths through them: Debian shares one copyright file between packages.
    Raises WorldFault when the layer is not in the store.
    """
    blob = store.blob(debian.written.digest)
    if blob is None:
        raise WorldFault("the layer of the base is not in the store", debian.written.digest, "run the build again")
    pattern = _pattern(names)
    every = _read(blob, _pattern([posixpath.basename(name) for name in names]))
    return {path: every[path] for path in sorted(every) if pattern.fullmatch(path)}


def _read(blob: Path, ends: re.Pattern[str]) -> dict[str, str]:
    """Read the files whose last name matches, also as they are called through links."""
    found, links = {}, {}
    with (
        blob.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as layer,
    ):
        for info in layer:
            if info.issym():
                target = posixpath.join("/", posixpath.dirname(info.name), info.linkname)
                links[info.name] = posixpath.normpath(target).lstrip("/")
            elif info.islnk():
                links[info.name] = info.linkname
            elif info.isreg() and ends.fullmatch(posixpath.basename(info.name)):
                found[info.name] = _text(layer, info)
    return {**_through(links, found), **found}


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(name).replace(r"\*", "[^/]*") for name in names))


def _through(links: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    return {
        link + path[len(target) :]: text
        for link, target in links.items()
        for path, text in found.items()
        if path == target or path.startswith(target + "/")
    }
