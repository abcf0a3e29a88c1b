"""A wheel of a lock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wheel:
    """A wheel of a lock in the store: project, version, its sha256 and where it lies."""

    project: str
    version: str
    sha256: str
    path: Path
