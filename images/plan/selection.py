"""Which releases of torch and transformers a request gets, on which base, with which backend."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from images.host.errors import UserFault
from images.model import Request
from images.plan import compatibility, nearest
from images.plan.catalog import Catalog, Torch, Transformers
from images.plan.compatibility import BaseChoice
from images.plan.request import Problem

DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class Selection:
    """What goes together for a request; `against_ccl` are the reasons why oneCCL cannot be the backend."""

    torch: Torch
    transformers: Transformers
    base_choice: BaseChoice
    backend: str
    against_ccl: tuple[str, ...]

    @property
    def ccl(self) -> bool:
        """Return whether training communicates through oneCCL."""
        return self.backend == "ccl"


def day_problems(request: Request, others: Sequence[Problem], catalog: Catalog, today: datetime.date) -> list[Problem]:
    """Return what is wrong with the day of a request, which is no day or after `today` (UTC): one problem, or none.

    The remedy names a day for the releases that a request gets whose `others` are corrected.
    """
    text = request.as_of
    try:
        # Newer releases of Python read more forms than this one (datetime, "fromisoformat").
        day = datetime.date.fromisoformat(text) if text is not None and DAY.fullmatch(text) else None
    except ValueError:
        day = None
    if text is None or (day and day <= today):
        return []
    earliest = _earliest_day(*_pair(_corrected(request, others), catalog))
    if day is None:
        fact, value, instead = "that is not a date", repr(text), earliest
    else:
        fact, value = "nothing can be known as of a day that has not come", f"{day} (today: {today}, UTC)"
        instead = max(earliest, today - datetime.timedelta(days=1))
    if instead > today:
        return [Problem(fact, value, _set_clock(instead, today))]
    return [Problem(fact, value, f"--as-of {instead}", replace(request, as_of=str(instead)))]


def _corrected(request: Request, problems: Sequence[Problem]) -> Request:
    """Return a request with the releases that its problems name instead, and its constraints where those are sound."""
    fixed = [each.corrected for each in problems if each.corrected]
    torch = next((each.torch for each in fixed if each.torch != request.torch), request.torch)
    transformers = next((each.transformers for each in fixed if each.transformers != request.transformers), None)
    sound = request if len(fixed) == len(problems) else Request()
    return replace(sound, torch=torch, transformers=transformers or request.transformers)


def _set_clock(day: datetime.date, today: datetime.date) -> str:
    return f"set the clock of this machine: it shows {today} (UTC), and there are releases of {day}"


def select(request: Request, catalog: Catalog, today: datetime.date = datetime.date.max) -> Selection:
    """Return what a request gets that is made on a day (UTC); its single values must have been checked.

    Raises UserFault that names every conflict at once, and the nearest request that works.
    """
    torch, transformers = _pair(request, catalog)
    choice = _base(torch, transformers, request, catalog, today)
    backend, against = compatibility.backend(torch, transformers, choice.base.python, request)
    return Selection(torch, transformers, choice, backend, tuple(against))


def _pair(request: Request, catalog: Catalog) -> tuple[Torch, Transformers]:
    """Take the two releases; the one that was not asked for follows the one that was."""
    torch = catalog.torch[Version(request.torch) if request.torch else catalog.default_torch]
    row = catalog.transformers[Version(request.transformers) if request.transformers else catalog.default_transformers]
    limits = request
    if nearest.works(torch, row, limits, catalog) or (request.torch and request.transformers):
        return torch, row
    if not request.transformers and (found := nearest.transformers_for(torch, row.version, limits, catalog)):
        return torch, catalog.transformers[found]
    if not request.torch and (found := nearest.torch_for(row, torch.version, limits, catalog)):
        return catalog.torch[found], row
    return torch, row


def _base(
    torch: Torch, transformers: Transformers, request: Request, catalog: Catalog, today: datetime.date
) -> BaseChoice:
    """Choose the first base without a conflict; without one, raise all conflicts together."""
    choices = compatibility.bases(torch, request, catalog)
    against = {choice: compatibility.conflicts(torch, transformers, choice, request) for choice in choices}
    early = list(_too_early(request.as_of, torch, transformers))
    good = next((choice for choice, found in against.items() if not found), None)
    if good is not None and not early:
        return good
    facts = [] if good else [fact for found in against.values() for fact in found]
    near_torch, near, kept = nearest.nearest_pair(torch, transformers, request, catalog)
    day = None
    if request.as_of:
        earliest = _earliest_day(catalog.torch[near_torch], catalog.transformers[near])
        day = max(datetime.date.fromisoformat(request.as_of), earliest)
    remedy = _set_clock(day, today) if day and day > today else nearest.command(near_torch, near, kept, day)
    raise UserFault("these do not go together", "; ".join(dict.fromkeys([*facts, *early])), remedy)


def _earliest_day(torch: Torch, transformers: Transformers) -> datetime.date:
    """Return the first day on which everything in the plan had been published."""
    return max(torch.released, transformers.released, transformers.libraries)


def _too_early(as_of: str | None, torch: Torch, transformers: Transformers) -> Iterable[str]:
    if as_of and datetime.date.fromisoformat(as_of) < _earliest_day(torch, transformers):
        family = (
            f"transformers {transformers.version} of {transformers.released}, libraries for it {transformers.libraries}"
        )
        yield f"{as_of} is before the releases: torch {torch.version} is of {torch.released}, {family} (PyPI)"
