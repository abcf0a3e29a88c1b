"""What images were built of the table: a record in docs/images.json, written from a lock and what build.py said."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from images.lock.lock import Lock

RECORD = Path(__file__).resolve().parents[2] / "docs/images.json"
DEBIAN = "debian"


@dataclass(frozen=True, kw_only=True)
class Built:
    """An image: what is in it, its size in a registry in bytes, its digest, the day, and the commit that built it."""

    torch: str
    transformers: str
    python: str
    backend: str
    base: str
    examples: bool
    size: int
    digest: str
    day: datetime.date
    commit: str

    @property
    def what(self) -> Sequence[object]:
        """Return what two builds of the same have in common."""
        return self.torch, self.transformers, self.python, self.backend, self.base, self.examples


def of(lock: Lock, said: Mapping[str, Any], day: datetime.date, commit: str) -> Built:
    """Return what was built of a lock; `said` is what build.py --json printed.

    A base that was made here is named by its suite.
    """
    return Built(
        torch=lock.torch, transformers=lock.transformers, python=lock.python, backend=lock.backend,
        base=lock.debian.suite if lock.base == DEBIAN else lock.base, examples=lock.examples is not None,
        size=said["size"], digest=said["digest"], day=day, commit=commit,
    )  # fmt: skip


def read(path: Path = RECORD) -> list[Built]:
    """Return what is recorded."""
    rows = json.loads(path.read_text())
    return [Built(**{**row, "day": datetime.date.fromisoformat(row["day"])}) for row in rows]


def add(known: Sequence[Built], new: Built) -> list[Built]:
    """Return the record with one image more, in the place of an older one of the same, newest versions first.

    The older one stays where its digest is the new one's, too: nothing of it has changed since its day.
    """
    if any(one.digest == new.digest for one in known):
        return list(known)
    rows = [new, *(one for one in known if one.what != new.what)]
    return sorted(rows, key=lambda one: (Version(one.torch), Version(one.transformers), one.what), reverse=True)


def text(rows: Sequence[Built]) -> str:
    """Return a record as a file."""
    return json.dumps([{**dataclasses.asdict(one), "day": str(one.day)} for one in rows], indent=1) + "\n"
