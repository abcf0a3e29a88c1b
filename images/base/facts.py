"""What a root file system has, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from images.oci.layer import Directories


@dataclass(frozen=True)
class Distribution:
    """An installed Python package: its name in normal form, the directory it is in, its .dist-info.

    `files` are the paths of its RECORD that are there, relative to the root; None where it has no list of files.
    """

    name: str
    version: str
    directory: str
    info: str
    files: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a root file system has; every path is relative to the root.

    `pythons` maps 3.X to the file of an interpreter, `sites` to the directories that it imports from, first the one
    that packages go to, and `marks` to the file that says that pip must not install anything. `listing` maps
    directories that packages have files in to the names there. `commands` maps python3 and python to the 3.X that they
    start, `libraries` the names of shared libraries to paths, and `status` is dpkg's list of packages. `multiarch` is
    how Debian names the directory for libraries of its machine.
    """

    release: Mapping[str, str]
    glibc: str | None
    pythons: Mapping[str, str]
    sites: Mapping[str, tuple[str, ...]]
    distributions: tuple[Distribution, ...]
    listing: Mapping[str, tuple[str, ...]]
    packages: Mapping[str, str]
    passwd: str
    sshd: str | None
    shell: str | None
    tini: str | None
    directories: Directories
    commands: Mapping[str, str]
    libraries: Mapping[str, str]
    status: str
    marks: Mapping[str, str]
    multiarch: str


@dataclass(frozen=True)
class Site:
    """Where packages go: the Python (3.N), the directory that it imports from, and what scripts are started with."""

    python: str
    directory: str
    command: str
