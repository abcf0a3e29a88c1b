"""Read a root file system once: what is installed, what libraries and programs it has, whether it can be a base."""

from __future__ import annotations

import csv
import functools
import io
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import TypeAdapter

from images.base.base import Distribution, Facts, Site
from images.base.overlay import OverlayTree
from images.debian.control import parse_paragraphs
from images.host.errors import UserFault, WorldFault
from images.oci import compression
from images.oci.layer import Directories
from images.oci.manifest import DAMAGED
from images.platforms import PLATFORMS, Platform
from images.store.blobs import Readable

INFO = re.compile(r"([^-]+)-([^-]+)\.dist-info")  # PyPA, "Recording installed projects"


def list_distributions(tree: OverlayTree, directory: str) -> Iterator[Distribution]:
    """Yield what is installed in a directory, in the order of the names there."""
    for name in tree.names(directory):
        match = INFO.fullmatch(name)
        if match is None or not name.isprintable():  # the second: no installer makes such a name, and no SBOM has it
            continue
        info = f"{directory}/{name}"
        yield Distribution(
            str(canonicalize_name(match[1])), match[2], directory, info, _list_recorded(tree, directory, info)
        )


def list_directories(tree: OverlayTree, distributions: Sequence[Distribution]) -> dict[str, tuple[str, ...]]:
    """Return the names in each directory that has files of packages, in their __pycache__, and in what is above."""
    listed: dict[str, tuple[str, ...]] = {}
    for path in (path for d in distributions for path in d.files or ()):
        directory = posixpath.dirname(path)
        while directory and directory not in listed:
            listed[directory] = tree.names(directory)
            cache = f"{directory}/__pycache__"
            if tree.directory(cache) == cache:
                listed[cache] = tree.names(cache)
            directory = posixpath.dirname(directory)
    return listed


def record_paths(text: str, directory: str) -> list[str]:
    """Return the paths of a RECORD, relative to the root, which `..` does not leave (PyPA, "Recording projects")."""
    paths = (posixpath.normpath(posixpath.join(f"/{directory}", row[0])) for row in _rows(text) if row and row[0])
    return [path.lstrip("/") for path in paths]


def debian_packages(status: str) -> dict[str, str]:
    """Return the packages of dpkg's status file as name -> version (deb-control(5))."""
    rows = (paragraph for paragraph in parse_paragraphs(status) if {"package", "version"} <= paragraph.keys())
    return {paragraph["package"]: paragraph["version"] for paragraph in rows}


def _list_recorded(tree: OverlayTree, directory: str, info: str) -> tuple[str, ...] | None:
    record = tree.text(f"{info}/RECORD")
    entries = (tree.find(path, follow=False) for path in record_paths(record, directory))
    return tuple(dict.fromkeys(entry[0] for entry in entries if entry and entry[1].kind != "d")) if record else None


def _rows(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(text.replace("\0", "").splitlines())
    except csv.Error:
        return


DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

LONGEST = 16 << 20  # bytes: of the largest text that is read, dpkg's status of a system with thousands of packages
TEXTS = re.compile(
    r"etc/(passwd|os-release)$|usr/lib/os-release$|var/lib/dpkg/status$"
    r"|.*-packages/[^/]+\.dist-info/RECORD$"
)
GLIBC = re.compile(rf"(.*/)?lib(64|/({'|'.join(one.multiarch for one in PLATFORMS)}))?/libc(\.so\.6|-2\.[0-9]+\.so)$")
DEBIAN = "usr/local/lib/python{}/dist-packages"  # what Debian's Python has for what pip installs
PYTHON = re.compile(r"python(3\.[0-9]+)")
# What libc.so.6 prints when it is run: csu/version.c in glibc.
BANNER = re.compile(rb"GNU C Library [^\n]{0,80}release version ([0-9]{1,9}\.[0-9]{1,9})(?![0-9])")


def read_facts(
    layers: Sequence[tuple[Path, str]], environment: Mapping[str, str], platform: Platform
) -> tuple[Facts, list[int]]:
    """Return the facts of layers and their sizes unpacked; each comes with the diff_id that it must have.

    The lowest is the first. `environment` is the image's own, for its PATH. Sizes are in bytes.
    Raises WorldFault when a layer is damaged.
    """
    tree = OverlayTree()
    sizes = [add_layer(tree, *layer) for layer in layers]
    return gather(tree, environment, platform), sizes


def add_layer(tree: OverlayTree, path: Path, diff_id: str) -> int:
    """Add one layer to a tree, check it against its diff_id, and return its size unpacked, in bytes."""
    with compression.open_layer_tar(path) as (tar, plain):
        tree.add(tar, keep_text)
    if f"sha256:{plain.sha256}" != diff_id:
        raise WorldFault("a layer is not what the configuration says", f"{plain.sha256}, not {diff_id}", DAMAGED)
    return plain.size


def keep_text(path: str, content: Readable) -> str | None:
    """Return what `gather` needs of a file: its text, or of the C library its release."""
    if TEXTS.match(path):
        return content.read(LONGEST).decode(errors="replace")
    if GLIBC.match(path):
        banner = BANNER.search(content.read(LONGEST))
        return banner[1].decode() if banner else None
    return None


def gather(tree: OverlayTree, environment: Mapping[str, str], platform: Platform) -> Facts:
    """Return the facts of a tree for a platform; `environment` is the image's own, for its PATH."""
    bins = [directory.strip("/") for directory in environment.get("PATH", DEFAULT_PATH).split(":") if directory]
    packages = debian_packages(tree.text("var/lib/dpkg/status"))
    release = assignments(tree.text("etc/os-release"))
    pythons = _interpreters(tree, bins)
    sites = {version: _sites(tree, path, version, release) for version, path in pythons.items()}
    directories = dict.fromkeys(directory for places in sites.values() for directory in places)
    distributions = tuple(d for directory in directories for d in list_distributions(tree, directory))
    libraries = platform.libraries
    return Facts(
        release=release, glibc=_glibc(tree, libraries, packages), pythons=pythons, sites=sites,
        distributions=distributions, listing=list_directories(tree, distributions),
        packages=packages, passwd=tree.text("etc/passwd"), shell=_find_file(tree, ["bin"], "sh"),
        sshd=_find_file(tree, [*bins, "usr/sbin", "usr/local/sbin"], "sshd"),
        tini=_find_file(tree, [*bins, ""], "tini"),
        directories=_note_directories(tree),
        commands=_commands(tree, bins, pythons), libraries=_find_libraries(tree, libraries),
        status=tree.text("var/lib/dpkg/status"),
        marks={version: file for version, path in pythons.items() if (file := _mark(tree, path, version))},
        multiarch=platform.multiarch,
    )  # fmt: skip


def debian_site(python: str) -> Site:
    """Return Debian's directory for what pip installs (posix_local), and what Debian's own pip writes into scripts."""
    return Site(python, DEBIAN.format(python), "/usr/bin/python3")


def require_usable(facts: Facts, name: str, python: str, glibc: str) -> None:
    """Refuse a base that cannot work: no glibc, one too old for wheels of `glibc`, no Python `python` (3.X).

    Raises UserFault that names every reason at once.
    """
    if reasons := list(_reasons(facts, python, glibc)):
        remedy = f"a base with glibc {glibc} or newer and Python {python}, or --base debian"
        raise UserFault("that base cannot work", f"{name}: {'; '.join(reasons)}", remedy)


def _reasons(known: Facts, python: str, glibc: str) -> Iterable[str]:
    if known.glibc is None:
        yield "it has no glibc, which wheels of torch need"
    elif Version(known.glibc) < Version(glibc):
        yield f"its glibc is {known.glibc}, {glibc} is needed"
    if known.shell is None:
        yield "it has no shell (/bin/sh), by which mpirun and ssh start ranks"
    if python not in known.pythons:
        yield f"it has no Python {python} (it has {', '.join(sorted(known.pythons)) or 'none'})"
    elif known.commands.get("python3", python) != python:
        yield f"its python3 is {known.commands['python3'] or 'another program'}, not {python}"


def from_plain(record: Mapping[str, Any]) -> Facts:
    """Return facts that JSON has kept as `asdict` has them, with lists in place of their tuples."""
    return _fact_types().validate_python(record)


@functools.cache
def _fact_types() -> TypeAdapter[Facts]:
    return TypeAdapter(Facts)  # takes longer to make than a record to be read


def assignments(text: str) -> dict[str, str]:
    """Return the values of NAME=value lines, without quotes (os-release(5))."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _interpreters(tree: OverlayTree, bins: Sequence[str]) -> dict[str, str]:
    """Return the interpreters in some directories as 3.X -> file; the first directory that has a 3.X counts.

    A link in a virtual environment is none: its prefix is another one than that of the file that it leads to.
    """
    interpreters: dict[str, str] = {}
    for directory in filter(None, map(tree.directory, bins)):
        for name in tree.names(directory):
            version, file = PYTHON.fullmatch(name), tree.find(f"{directory}/{name}")
            if version and file and file[1].kind == "f" and not _is_virtual(tree, directory):
                interpreters.setdefault(version[1], file[0])
    return interpreters


def _is_virtual(tree: OverlayTree, directory: str) -> bool:
    """Return whether programs in a directory are those of a virtual environment (PEP 405)."""
    return tree.find(f"{posixpath.dirname(directory)}/pyvenv.cfg") is not None


def _sites(tree: OverlayTree, interpreter: str, python: str, release: Mapping[str, str]) -> tuple[str, ...]:
    """Return where a Python imports packages from: Debian's has directories of its own, others go by their prefix."""
    prefix = posixpath.dirname(posixpath.dirname(interpreter))
    first, others = f"{prefix}/lib/python{python}/site-packages".lstrip("/"), list[str]()
    if prefix == "usr" and "debian" in (release.get("ID"), *release.get("ID_LIKE", "").split()):
        first = DEBIAN.format(python)
        others = ["usr/lib/python3/dist-packages", f"usr/lib/python{python}/dist-packages"]
    return tuple(dict.fromkeys([tree.directory(first) or first, *filter(None, map(tree.directory, others))]))


def _mark(tree: OverlayTree, interpreter: str, python: str) -> str | None:
    """Return the file beside a Python's own modules by which pip refuses to install anything (PEP 668)."""
    prefix = posixpath.dirname(posixpath.dirname(interpreter))
    mark = tree.find(f"{prefix}/lib/python{python}/EXTERNALLY-MANAGED", follow=False)
    return mark[0] if mark else None


def _glibc(tree: OverlayTree, directories: Sequence[str], packages: Mapping[str, str]) -> str | None:
    """Read the release from the library itself, else from its Debian package."""
    for directory in directories:
        if release := tree.text(f"{directory}/libc.so.6"):
            return release
    match = re.match(r"(?:[0-9]+:)?([0-9]{1,9}\.[0-9]{1,9})(?![0-9])", packages.get("libc6", ""))
    return match[1] if match else None


def _find_file(tree: OverlayTree, directories: Sequence[str], name: str) -> str | None:
    for directory in directories:
        entry = tree.find(f"{directory}/{name}")
        if entry and entry[1].kind == "f":
            place = tree.directory(directory)
            return f"{place}/{name}".lstrip("/")
    return None


def _commands(tree: OverlayTree, bins: Sequence[str], pythons: Mapping[str, str]) -> dict[str, str]:
    """Map python3 and python to the 3.X that they start, empty for another program and in a virtual environment."""
    places = {name: _find_file(tree, bins, name) for name in ("python3", "python")}
    versions = {path: version for version, path in pythons.items()}
    return {
        name: "" if _is_virtual(tree, posixpath.dirname(path)) else versions.get(entry[0], "")
        for name, path in places.items()
        if path and (entry := tree.find(path))
    }


def _find_libraries(tree: OverlayTree, directories: Sequence[str]) -> dict[str, str]:
    names = dict.fromkeys(name for directory in directories for name in tree.names(directory) if ".so" in name)
    return {name: path for name in names if (path := _find_file(tree, directories, name))}


def _note_directories(tree: OverlayTree) -> Directories:
    """Note directories with their owners, and the links that lead to directories."""
    owners, links = {}, {}
    for path, node in tree.walk():
        if node.kind == "d":
            owners[path] = (node.mode, node.uid, node.gid)
        elif node.kind == "l" and (target := tree.directory(path)) is not None:
            links[path] = target
    return Directories(owners, links)


def newest_symbol(library: bytes, prefix: str) -> Version:
    """Return the newest symbol version `<prefix>_N.N` that a library asks of others; 0 if it asks for none."""
    from images.foreign import libraries  # with pyelftools, which a build does without that knows all of its files

    names = libraries.read_section(io.BytesIO(library), ".gnu.version_r", _version_names)
    # Others, such as GLIBC_PRIVATE, are names only.
    matches = (re.fullmatch(rf"{prefix}_([0-9]{{1,9}}(?:\.[0-9]{{1,9}})+)", name, re.ASCII) for name in names)
    return max((Version(match[1]) for match in matches if match), default=Version("0"))


def _version_names(section: Any) -> Iterable[str]:
    return (str(part.name) for _, parts in section.iter_versions() for part in parts)
