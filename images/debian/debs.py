"""Packages of Debian, by what names them exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import StringConstraints

from images.foreign.paths import Word


@dataclass(frozen=True, order=True)
class Deb:
    """A Debian package: name, version and architecture (Debian Policy 5.6), its file's name and sha256."""

    package: Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9+.-]+\z")]
    version: Annotated[str, StringConstraints(pattern=r"\A([0-9]+:)?[0-9][0-9A-Za-z.+~:-]*\z")]
    architecture: Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9-]*\z")]
    filename: str
    sha256: str


@dataclass(frozen=True)
class Debian:
    """Debian's part: the suite, the packages that were asked for, every package, and the sources.list of a base."""

    suite: Word
    packages: tuple[Word, ...]
    sources: str
    debs: tuple[Deb, ...]
