"""Request + catalog -> the releases, the base and the backend that go together, or why nothing does."""

from __future__ import annotations

import datetime
import re
import shlex
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from packaging.version import Version

from images.host.errors import UserFault
from images.plan import compatibility
from images.plan.catalog import Catalog, Torch, Transformers
from images.plan.compatibility import BaseChoice
from images.plan.request import Request


@dataclass(frozen=True)
class Selection:
    """What goes together for a request; `against_ccl` are the reasons why oneCCL cannot be the backend."""

    torch: Torch
    transformers: Transformers
    base: BaseChoice
    backend: str
    against_ccl: tuple[str, ...]

    @property
    def ccl(self) -> bool:
        """Return whether training communicates through oneCCL."""
        return self.backend == "ccl"


def select(request: Request, catalog: Catalog, today: datetime.date) -> Selection:
    """Return what a request gets that is made on a day (UTC).

    Raises UserFault for a value that cannot be used; else it names every conflict, and a request that works.
    """
    _require_version("torch", request.torch, catalog.default_torch, catalog.torch)
    _require_version("transformers", request.transformers, catalog.default_transformers, catalog.transformers)
    _require_day(request.as_of, today)
    _require_base(request, catalog)
    for task in request.tasks:
        _require_task(task, catalog)
    torch, transformers = _pair(request, catalog)
    choices = compatibility.list_bases(torch, request, catalog)
    against = {choice: compatibility.list_conflicts(torch, transformers, choice, request) for choice in choices}
    early = list(_too_early(request.as_of, torch, transformers))
    good = next((choice for choice, conflicts in against.items() if not conflicts), None)
    if good is None or early:
        facts = [] if good else [fact for conflicts in against.values() for fact in conflicts]
        value = "; ".join(dict.fromkeys([*facts, *early]))
        where = f" on {request.platform}" if request.platform else ""
        raise UserFault(f"these do not go together{where}", value, _instead(torch, transformers, request, catalog))
    backend, reasons = compatibility.choose_backend(torch, transformers, good.base.python, request)
    return Selection(torch, transformers, good, backend, tuple(reasons))


def _require_version(name: str, requested: str | None, default: Version, known: Collection[Version]) -> None:
    if requested is None:
        return
    try:
        version = Version(requested)
    except ValueError as error:  # also of a number with more digits than Python reads
        raise UserFault(f"that is not a version of {name}", repr(requested), f"--{name} {default}") from error
    if version not in known:
        near = max((release for release in known if release < version), default=min(known))
        raise UserFault(f"no such release of {name} in images/versions.toml", requested, f"--{name} {near}")


def _require_day(text: str | None, today: datetime.date) -> None:
    if text is None:
        return
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or str(day) != text:  # newer releases of Python read more forms than this one
        raise UserFault("that is not a date", repr(text), "--as-of YYYY-MM-DD")
    if day > today:
        fact = "--as-of is a day in the future"
        remedy = f"--as-of {today - datetime.timedelta(days=1)}"
        raise UserFault(fact, f"{day} (today: {today}, UTC)", remedy)


def _require_base(request: Request, catalog: Catalog) -> None:
    if request.python is not None and not re.fullmatch(r"3\.[0-9]{1,3}", request.python):
        remedy = f"--python {catalog.debian.python}"
        raise UserFault("that is not a minor release of Python", repr(request.python), remedy)
    if _is_own(request) and request.python is None:
        remedy = f"--base {request.base} --python {catalog.debian.python}"
        raise UserFault("the Python of an image must be given", request.base, remedy)


def _require_task(task: str, catalog: Catalog) -> None:
    if task not in catalog.tasks:
        remedy = f"--tasks with one or more of {', '.join(catalog.tasks)}"
        raise UserFault("no directory of the examples for text has that name", repr(task), remedy)


def _is_own(request: Request) -> bool:
    """Return whether the base is an image that the user names."""
    return request.base not in (None, "debian", "intel")


def is_buildable(torch: Torch, transformers: Transformers, request: Request, catalog: Catalog) -> bool:
    """Return whether this pair can be built on some base as requested."""
    choices = compatibility.list_bases(torch, request, catalog)
    return any(not compatibility.list_conflicts(torch, transformers, choice, request) for choice in choices)


def partners(torch: Torch, request: Request, catalog: Catalog) -> set[str]:
    """Return the eras of transformers that can be built with a torch as requested; releases of one require the same."""
    rows = {row.era: row for row in catalog.transformers.values()}
    return {era for era, row in rows.items() if is_buildable(torch, row, request, catalog)}


def find_pair(
    fits: Callable[[Version, Version], bool], request: Request, catalog: Catalog
) -> tuple[Torch, Transformers] | None:
    """Return a torch and a transformers that fit and can be built as requested.

    The torch is that of the request, or else the newest; the transformers is the newest for it.
    """
    as_requested = replace(request, torch=None, transformers=None)
    usual = sorted(catalog.transformers.values(), key=lambda row: (row.yanked is None, row.version), reverse=True)
    first = Version(request.torch) if request.torch else catalog.default_torch
    for version in sorted(catalog.torch, key=lambda one: (one == first, one), reverse=True):
        torch = catalog.torch[version]
        rows = [row for row in usual if fits(version, row.version) and not [*_too_early(request.as_of, torch, row)]]
        eras = partners(torch, as_requested, catalog) if rows else ()
        if fitting := next((row for row in rows if row.era in eras), None):
            return torch, fitting
    return None


def _pair(request: Request, catalog: Catalog) -> tuple[Torch, Transformers]:
    """Take the two releases; the one that was not asked for follows the one that was."""
    torch = catalog.torch[Version(request.torch) if request.torch else catalog.default_torch]
    row = catalog.transformers[Version(request.transformers) if request.transformers else catalog.default_transformers]
    return _fitting(torch, row, request, catalog) or (torch, row)


def _fitting(
    torch: Torch, transformers: Transformers, request: Request, catalog: Catalog
) -> tuple[Torch, Transformers] | None:
    """Return the pair itself; else with the nearest release of what the request leaves open that goes with the other.

    The nearest are those before, then those after it. A withdrawn transformers is only taken where it was asked for.
    """
    if is_buildable(torch, transformers, request, catalog):
        return torch, transformers
    if request.transformers is None:
        eras = partners(torch, request, catalog)
        near = (catalog.transformers[version] for version in _by_nearness(transformers.version, catalog.transformers))
        if fitting := next((row for row in near if row.era in eras and row.yanked is None), None):
            return torch, fitting
    if request.torch is None:
        rows = (catalog.torch[version] for version in _by_nearness(torch.version, catalog.torch))
        return next(((row, transformers) for row in rows if is_buildable(row, transformers, request, catalog)), None)
    return None


def _by_nearness(requested: Version, known: Iterable[Version]) -> list[Version]:
    every = sorted(known)
    before = [version for version in every if version <= requested]
    return [*reversed(before), *every[len(before) :]]


def _instead(torch: Torch, transformers: Transformers, request: Request, catalog: Catalog) -> str:
    """Return the command of a request that works: another release of one of both, then with fewer wishes."""
    others = [replace(request, python=python) for python in torch.python] if _is_own(request) else []
    plain = Request(platform=request.platform, platforms=request.platforms, as_of=request.as_of)
    kept, pair = request, None
    for kept in map(_as_index_has_it, (request, *others, replace(request, backend=None), plain)):
        open_ = replace(kept, torch=None, transformers=None)
        if pair := _fitting(torch, transformers, open_, catalog):
            break
    rows = pair or (catalog.torch[catalog.default_torch], catalog.transformers[catalog.default_transformers])
    platforms = request.platforms or ((request.platform,) if request.platform else ())
    words = ["python", "build.py", *(["--platform", ",".join(map(str, platforms))] if platforms else [])]
    words += ["--torch", str(rows[0].version), "--transformers", str(rows[1].version)]
    for name, value in (("python", kept.python), ("base", kept.base), ("backend", kept.backend)):
        words += [f"--{name}", value] if value else []
    if request.as_of:
        words += ["--as-of", max(request.as_of, str(_earliest_day(*rows)))]
    return shlex.join(words)


def _as_index_has_it(request: Request) -> Request:
    """Return a request as every image of its index can have it: what is Intel's is for one platform only."""
    if not request.platforms:
        return request
    base = request.base if _is_own(request) else "debian"
    return replace(request, base=base, backend=None if request.backend == "ccl" else request.backend)


def _earliest_day(torch: Torch, transformers: Transformers) -> datetime.date:
    """Return the first day on which everything in the plan had been published."""
    return max(torch.released, transformers.released, transformers.libraries)


def _too_early(as_of: str | None, torch: Torch, transformers: Transformers) -> Iterable[str]:
    if as_of and datetime.date.fromisoformat(as_of) < _earliest_day(torch, transformers):
        family = (
            f"transformers {transformers.version} of {transformers.released}, libraries for it {transformers.libraries}"
        )
        yield f"{as_of} is before the releases: torch {torch.version} is of {torch.released}, {family} (PyPI)"
