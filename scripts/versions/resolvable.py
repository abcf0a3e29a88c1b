"""Which rows of versions.toml can be had: pairs that cover it, resolved as build.py does; no wheel is downloaded."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from packaging.version import Version

from images.context import Context
from images.host.background import background
from images.host.errors import Fault, WorldFault
from images.lock import resolve
from images.plan import compatibility, planner
from images.plan.catalog import Catalog, Torch
from images.plan.plan import Plan, Request

USER_IMAGE = "IMAGE"


@dataclass(frozen=True)
class Outcome:
    """What became of a row: the number of its packages, or why there are none."""

    plan: Plan
    packages: int = 0
    fault: Fault | None = None

    @property
    def line(self) -> str:
        """Return one line: the row, and `ok`, `fails` or `not asked` with the reason."""
        plan = self.plan
        where = f"{plan.base}, Python {plan.python}, {plan.backend}"
        row = f"torch {plan.torch}, transformers {plan.transformers} ({where})"
        if self.fault is None:
            return f"{row}: ok, {self.packages} packages"
        word = "not asked" if isinstance(self.fault, WorldFault) else "fails"
        return f"{row}: {word}: {self.fault.fact}: {self.fault.value}"


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 2 when a row fails, 1 when one could not be asked, else 0."""
    return max((outcome.fault.exit_code for outcome in outcomes if outcome.fault), default=0)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return how many rows there were, and what became of them."""
    codes = [outcome.fault.exit_code if outcome.fault else 0 for outcome in outcomes]
    return f"{len(codes)} rows: {codes.count(0)} ok, {codes.count(2)} fail, {codes.count(1)} not asked"


def chosen(catalog: Catalog) -> list[Plan]:
    """Return the plans that cover the table, by torch.

    Each torch, on each of its bases, with the oldest and the newest transformers that goes with it; and the oldest and
    the newest transformers of each range with each line of torch that it goes with. Withdrawn releases are left out.
    """
    requests = [*_ends_of_torch(catalog), *_ends_of_ranges(catalog)]
    plans = {_key(plan): plan for plan in (planner.make_plan(request, catalog) for request in requests)}
    return [plan for _, plan in sorted(plans.items())]


def _key(plan: Plan) -> tuple[Version, Version, str]:
    return Version(plan.torch), Version(plan.transformers), plan.base


def _ends_of_torch(catalog: Catalog) -> Iterator[Request]:
    for torch in catalog.torch.values():
        for limits in _limits(torch, catalog):
            fits = [version for version in _good(catalog) if _works(torch.version, version, limits, catalog)]
            yield from (_request(torch.version, version, limits) for version in {*fits[:1], *fits[-1:]})


def _limits(torch: Torch, catalog: Catalog) -> Iterator[Request]:
    """Yield what to ask for beside the versions: each base of a torch, and one's own where the stack needs another."""
    choices = compatibility.list_bases(torch, Request(), catalog)
    yield from (Request(base="intel" if choice.reference else "debian") for choice in choices)
    pythons = torch.ccl_python or torch.python
    if not any(choice.base.python in pythons for choice in choices):
        yield Request(base=USER_IMAGE, python=pythons[-1])


def _ends_of_ranges(catalog: Catalog) -> Iterator[Request]:
    lines = [list(line) for _, line in groupby(sorted(catalog.torch), key=lambda version: version.release[:2])]
    for _, run in groupby(_good(catalog), key=lambda version: catalog.transformers[version].era):
        releases = list(run)
        for line in lines:
            for torch, transformers in ((line[0], releases[0]), (line[-1], releases[-1])):
                if _works(torch, transformers, Request(), catalog):
                    yield _request(torch, transformers, Request())


def _good(catalog: Catalog) -> list[Version]:
    return [version for version, row in sorted(catalog.transformers.items()) if row.yanked is None]


def _works(torch: Version, transformers: Version, limits: Request, catalog: Catalog) -> bool:
    return planner.is_buildable(catalog.torch[torch], catalog.transformers[transformers], limits, catalog)


def _request(torch: Version, transformers: Version, limits: Request) -> Request:
    return Request(torch=str(torch), transformers=str(transformers), base=limits.base, python=limits.python)


def outcomes(plans: Iterable[Plan], context: Context, jobs: int) -> Iterator[Outcome]:
    """Resolve plans, `jobs` at a time, and yield what became of each, in order.

    What was resolved before is resolved again. What has begun is ended where nobody asks for the rest.
    """
    anew = replace(context, today=datetime.date.min)  # no day is over then, and what is not is not kept
    with background(jobs) as start:
        tasks = [start(partial(_outcome, plan, anew)) for plan in plans]
        for task in tasks:
            yield task.result()


def _outcome(plan: Plan, context: Context) -> Outcome:
    try:
        return Outcome(plan, len(resolve.resolve_packages(plan, context).artifacts))
    except Fault as fault:
        return Outcome(plan, fault=fault)
