"""What is known against a package, and the list of what may stay for now."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from images.foreign.documents import parse_toml
from images.host.errors import UserFault

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


@dataclass(frozen=True, order=True)
class Finding:
    """A vulnerability of a package: all its names, and the release that mends it, None where there is none."""

    package: str
    version: str
    names: tuple[str, ...]
    fixed: str | None

    @property
    def line(self) -> str:
        """Return it in one line."""
        mended = f"fixed in {self.fixed}" if self.fixed else "no fix yet"
        return f"{self.package} {self.version}: {', '.join(self.names)}: {mended}"


class Allowed(BaseModel):
    """A row of the list: a vulnerability of a package, by one of its names, and why it may stay until a day."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Text
    package: Text
    reason: Text
    until: datetime.date

    def covers(self, finding: Finding) -> bool:
        """Return whether the row is about that."""
        return self.package == finding.package and self.id in finding.names


class _List(BaseModel):
    model_config = ConfigDict(extra="forbid")

    allow: tuple[Allowed, ...] = ()


def read_allowed(path: Path, today: datetime.date) -> tuple[Allowed, ...]:
    """Return the rows of a list; the last day of a row is `until`.

    Raises UserFault for a file that cannot be read as a list, and for a row that has expired.
    """
    try:
        allowed = _List.model_validate(parse_toml(path.read_text(encoding="utf-8"))).allow
    except (OSError, ValueError) as error:
        remedy = "rows [[allow]] with id, package, reason and until, as the first lines of scripts/audit/allowed.toml"
        value = f"{path}: {' '.join(str(error).split())}"
        raise UserFault("the list of what is allowed cannot be read", value, remedy) from error
    if expired := [row for row in allowed if row.until < today]:
        listed = "; ".join(f"{row.id} of {row.package} until {row.until} ({row.reason})" for row in expired)
        remedy = f"remove the row and build with what mends it, or look at it again and give a later day: {path}"
        raise UserFault("what was allowed for a time is not any more", listed, remedy)
    return allowed


def without_allowed(findings: Sequence[Finding], allowed: Sequence[Allowed]) -> tuple[list[Finding], list[Allowed]]:
    """Return what no row covers, and the rows that cover nothing."""
    left = [finding for finding in findings if not any(row.covers(finding) for row in allowed)]
    idle = [row for row in allowed if not any(row.covers(finding) for finding in findings)]
    return left, idle
