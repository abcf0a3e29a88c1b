"""What is installed: Python's packages with the files that belong to them, and Debian's packages by dpkg's own list."""

from __future__ import annotations

import csv
import posixpath
import re
from collections.abc import Iterator, Sequence

from packaging.utils import canonicalize_name

from images.base.facts import Distribution
from images.base.overlay import OverlayTree
from images.debian.control import parse_paragraphs

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
