"""What will be built: a request with everything decided that can be known before the first download."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from images.plan.pins import Pins
from images.plan.user_files import UserFile


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
    cpu_suffix: bool
    requirements: tuple[str, ...]
    user_packages: tuple[str, ...] = ()
    user_files: Mapping[UserFile, Path] = field(default_factory=dict)
    intel: tuple[str, ...]
    base_reference: str | None
    base_suite: str
    suite: str
    packages: tuple[str, ...]
    examples: str | None
    tag: str
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    sources: Mapping[str, str]
    support: str | None = None
