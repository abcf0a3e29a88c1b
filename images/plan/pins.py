"""What a plan and its lock both say: releases, days, options and origins."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from images.content import Content
from images.foreign.paths import Address, Backend, Line, Minor, Module, Release, Word
from images.plan.user_files import UserFile
from images.platforms import PLATFORMS, Platform
from images.store.store import key_of


@dataclass(frozen=True)
class SourceOnly:
    """A project without wheels: its name, its version, and the requirements that its source archive does not state."""

    name: Word
    version: Release
    requires: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What an image is for, its releases, and the days as of which they are resolved.

    `platform` is what the image is for, `base` what to ask for again: debian, intel, a name in a registry, or a digest
    for a base from disk.
    """

    platform: Platform
    torch: Release
    transformers: Release
    python: Minor
    glibc: Minor
    backend: Backend
    module: Module | None = None
    base: Line
    as_of: datetime.date
    family_as_of: datetime.date


@dataclass(frozen=True, kw_only=True)
class Origins:
    """Where files are looked for: `index` and `find_links` are where Intel keeps its wheels."""

    source_only: tuple[SourceOnly, ...] = ()
    index: Address | None = None
    find_links: Address | None = None


@dataclass(frozen=True, kw_only=True)
class Pins(Origins, Content, Versions):
    """What a plan and its lock both say; a lock has the fields from the last of these classes to the first."""


def tag_of(pins: Pins, files: Iterable[UserFile] = ()) -> str:
    """Return what an image is called where nobody says otherwise; one for the usual platform is not named after it.

    With files of the user's own it is named after them, too: another image has the name without.
    """
    suffix = "" if pins.platform == PLATFORMS[0] else f"-{pins.platform.architecture}"
    contents = [astuple(one) for one in files]
    suffix += f"-{key_of(contents)[:8]}" if contents else ""
    return f"multinode:torch{pins.torch}-transformers{pins.transformers}{suffix}"
