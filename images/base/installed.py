"""What is installed: Python's packages with the files that belong to them, and Debian's packages by dpkg's own list."""

from __future__ import annotations

import csv
import posixpath
import re
from collections.abc import Iterator, Sequence

from packaging.utils import canonicalize_name

from images.base.overlay import Tree
from images.model import Distribution

# name-version.dist-info by the specification; setuptools and distutils wrote .egg-info in several forms.
INFO = re.compile(r"(?P<name>.+?)(?:-(?P<version>[^-]+))?(?:-py[0-9.]+)?\.(dist|egg)-info")
FIELD = re.compile(r"([!-9;-~]+):[ \t]*(.*)")
BLANK = re.compile(r"\n[ \t\r]*\n")


def distributions_in(tree: Tree, directory: str) -> Iterator[Distribution]:
    """Yield what is installed in a directory, in the order of the names there."""
    for name in tree.names(directory):
        match = INFO.fullmatch(name)
        if match is None or not name.isprintable():  # the second: no installer makes such a name, and no SBOM has it
            continue
        info = f"{directory}/{name}"
        text = tree.text(f"{info}/PKG-INFO") or tree.text(info)
        version = match["version"] or _field(text, "Version")
        if version:
            yield Distribution(
                str(canonicalize_name(match["name"])), version, directory, info, _files(tree, directory, info)
            )


def listing(tree: Tree, distributions: Sequence[Distribution]) -> dict[str, tuple[str, ...]]:
    """Return the names in each directory that has files of packages, in their __pycache__, and in what is above."""
    found: dict[str, tuple[str, ...]] = {}
    for path in (path for d in distributions for path in d.files or ()):
        directory = posixpath.dirname(path)
        while directory and directory not in found:
            found[directory] = tree.names(directory)
            cache = f"{directory}/__pycache__"
            if tree.directory(cache) == cache:
                found[cache] = tree.names(cache)
            directory = posixpath.dirname(directory)
    return found


def record_paths(text: str, directory: str) -> list[str]:
    """Return the paths of a RECORD, relative to the root, which `..` does not leave (PyPA, "Recording projects")."""
    paths = (posixpath.normpath(posixpath.join(f"/{directory}", row[0])) for row in _rows(text) if row and row[0])
    return [path.lstrip("/") for path in paths]


def debian_packages(status: str) -> dict[str, str]:
    """Return the packages of dpkg's status file as name -> version (deb-control(5))."""
    found = (fields for fields in paragraphs(status) if {"package", "version"} <= fields.keys())
    return {fields["package"]: fields["version"] for fields in found}


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Yield each paragraph of a Debian control file as field name in lower case -> value (deb-control(5)).

    A value keeps the newlines between its lines. A line that is neither a field nor the rest of one is skipped.
    """
    for block in BLANK.split(text):
        fields: dict[str, str] = {}
        name = None
        for line in block.split("\n"):
            if line.startswith((" ", "\t")):
                if name:
                    fields[name] += "\n" + line.strip()
            elif match := FIELD.match(line):
                name = match[1].lower()
                fields[name] = match[2].strip()
            else:
                name = None
        if fields:
            yield fields


def _files(tree: Tree, directory: str, info: str) -> tuple[str, ...] | None:
    if record := tree.text(f"{info}/RECORD"):
        paths = record_paths(record, directory)
    elif listed := tree.text(f"{info}/installed-files.txt"):
        paths = record_paths(listed, info)
    else:
        return None
    found = (tree.find(path, follow=False) for path in paths)
    return tuple(dict.fromkeys(entry[0] for entry in found if entry and entry[1].kind != "d"))


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}: *(\S+)", text, re.MULTILINE)
    return found[1] if found else ""


def _rows(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(text.replace("\0", "").splitlines())
    except csv.Error:
        return
