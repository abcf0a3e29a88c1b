"""What the user asks for: the first noun of a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from images.content import Value
from images.plan.user_files import UserFile
from images.platforms import Platform


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None and () stand for the default, as does what `content` does not have.

    `platforms` are those of all images of an index, where one is made, `platform` among them. `user_packages` are lines
    of plan/requirements.py. `user_files` maps each file to where it lies here.
    """

    platform: Platform | None = None
    platforms: tuple[Platform, ...] = ()
    torch: str | None = None
    transformers: str | None = None
    python: str | None = None
    base: str | None = None
    backend: str | None = None
    tasks: tuple[str, ...] = ()
    examples: str | None = None
    tag: str | None = None
    as_of: str | None = None
    content: Mapping[str, Value] = field(default_factory=dict)
    user_packages: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    user_files: Mapping[UserFile, Path] = field(default_factory=dict)
