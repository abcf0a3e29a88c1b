"""What the user asks for, what of it is the same in a lock, and what will be built."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

from images.content import EVERY, Content, Value, option
from images.foreign.paths import Address, Backend, Line, Minor, Module, Release, Word
from images.plan.user_files import UserFile
from images.platforms import PLATFORMS, Platform


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None and () stand for the default, as does what `content` does not have.

    A field that is an option is what was typed: the planner reads it, and a plan has what it decides by it.
    `platforms` are those of all images of an index, where one is made, `platform` among them. `user_packages` are lines
    of plan/requirements.py. `user_files` maps each file to where it lies here.
    """

    platform: Platform | None = None
    platforms: tuple[Platform, ...] = ()
    torch: str | None = option(None, "release of PyTorch (default: the newest that the tests train)", "VERSION")
    transformers: str | None = option(
        None, "release of transformers (default: the newest for that torch); ccl needs one below 5.1", "VERSION"
    )
    python: str | None = option(None, "Python of the image (default: the base's)", "3.N")
    base: str | None = option(
        None, "the base image (default: Intel's, if there is one); of a lock: a layout or an archive with it",
        "debian|intel|IMAGE", commands=f"{EVERY} verify",
    )  # fmt: skip
    backend: str | None = option(
        None, "backend of distributed training (default: ccl where it can be)", choices=("ccl", "gloo")
    )
    as_of: str | None = option(None, "resolve as of this day (default: that of the releases)", "YYYY-MM-DD")
    tasks: tuple[str, ...] = option((), "examples whose requirements go in (default: all of text)", "A,B", commas=True)
    examples: str | None = option(
        None, "example scripts (default: the release's archive)", "PATH|URL|none", commands=f"{EVERY} verify"
    )
    tag: str | None = None
    content: Mapping[str, Value] = field(default_factory=dict)
    user_packages: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    user_files: Mapping[UserFile, Path] = field(default_factory=dict)


REQUESTED = tuple(one for one in fields(Request) if "help" in one.metadata)  # those that are options


def is_named(base: str | None) -> bool:
    """Return whether a base is one that has a row, or the default; any other is an image of the user's."""
    return base in (None, "debian", "intel")


# What a plan and its lock both say: releases, days, options and origins.

UNSEEN = {"shown": False}  # of a field that `plan` does not print, or prints in other words


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
class Pins(Content, Versions):
    """What a plan and its lock both say; a lock has the fields of Versions first, then those of Content, then these.

    `bindings_index` and `find_links` are where Intel keeps its wheels.
    """

    source_only: tuple[SourceOnly, ...] = field(default=(), metadata=UNSEEN)
    bindings_index: Address | None = field(default=None, metadata=UNSEEN)
    find_links: Address | None = field(default=None, metadata=UNSEEN)


def tag_of(pins: Pins, files: Iterable[UserFile] = ()) -> str:
    """Return what an image is called where nobody says otherwise; one for the usual platform is not named after it.

    With files of the user's own it is named after them, too: another image has the name without.
    """
    from images.store.store import key_of  # --help does without

    suffix = "" if pins.platform == PLATFORMS[0] else f"-{pins.platform.architecture}"
    contents = [astuple(one) for one in files]
    suffix += f"-{key_of(contents)[:8]}" if contents else ""
    return f"multinode:torch{pins.torch}-transformers{pins.transformers}{suffix}"


# What will be built: a request with everything decided that can be known before the first download.


@dataclass(frozen=True, kw_only=True)
class Plan(Pins):
    """What will be built: requirements, the days as of which they are resolved, the base, and notes for the user.

    Without `base_reference` the base is made of `packages` of Debian's `suite`. With it, that image of `base_suite` is
    the base, none of `packages` is fetched, and what it lacks comes out of packages of `suite`. `bindings` and `ipex`
    are the versions of a oneCCL stack; with `cpu_suffix`, a torch without +cpu may be for a GPU. `sources` say what the
    rows were taken from, and `support` who mends the suite, where its security team does not.
    """

    bindings: str | None
    ipex: str | None
    intel: tuple[str, ...]
    cpu_suffix: bool = field(metadata=UNSEEN)
    user_packages: tuple[str, ...] = field(default=(), metadata=UNSEEN)
    user_files: Mapping[UserFile, Path] = field(default_factory=dict, metadata=UNSEEN)
    base_reference: str | None = field(metadata=UNSEEN)
    base_suite: str = field(metadata=UNSEEN)
    suite: str = field(metadata=UNSEEN)
    packages: tuple[str, ...] = field(metadata=UNSEEN)
    examples: str | None
    tag: str
    requirements: tuple[str, ...]
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    sources: Mapping[str, str]
    support: str | None = None

    @property
    def is_on_pulled(self) -> bool:
        """Return whether the base is an image of others; else it is made here."""
        return self.base_reference is not None
