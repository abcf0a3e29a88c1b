"""Request + catalog -> the releases, the base and the backend that go together, and the plan; or why nothing does."""

from __future__ import annotations

import datetime
import functools
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from packaging.requirements import Requirement
from packaging.version import Version

from images.content import Content
from images.host.errors import UserFault
from images.plan import compatibility
from images.plan import requirements as users
from images.plan.catalog import Catalog, Torch, Transformers
from images.plan.compatibility import BaseChoice
from images.plan.plan import Plan, Request, is_named, tag_of
from images.platforms import PLATFORMS, Platform


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
        if str(day) != text:  # newer releases of Python read more forms than this one
            raise ValueError(text)
    except ValueError as error:
        raise UserFault("that is not a date", repr(text), "--as-of YYYY-MM-DD") from error
    if day > today:
        fact = "--as-of is a day in the future"
        remedy = f"--as-of {today - datetime.timedelta(days=1)}"
        raise UserFault(fact, f"{day} (today: {today}, UTC)", remedy)


def _require_base(request: Request, catalog: Catalog) -> None:
    if request.python is not None and not re.fullmatch(r"3\.[0-9]{1,3}", request.python):
        remedy = f"--python {catalog.debian.python}"
        raise UserFault("that is not a minor release of Python", repr(request.python), remedy)
    if not is_named(request.base) and request.python is None:
        remedy = f"--base {request.base} --python {catalog.debian.python}"
        raise UserFault("the Python of an image must be given", request.base, remedy)


def _require_task(task: str, catalog: Catalog) -> None:
    if task not in catalog.tasks:
        remedy = f"--tasks with one or more of {', '.join(catalog.tasks)}"
        raise UserFault("no directory of the examples for text has that name", repr(task), remedy)


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
    usual = sorted(catalog.transformers.values(), key=lambda row: (row.yanked is None, row.version), reverse=True)
    first = Version(request.torch) if request.torch else catalog.default_torch
    for version in sorted(catalog.torch, key=lambda one: (one == first, one), reverse=True):
        torch = catalog.torch[version]
        rows = [row for row in usual if fits(version, row.version) and not [*_too_early(request.as_of, torch, row)]]
        eras = partners(torch, request, catalog) if rows else ()
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
    others = [replace(request, python=python) for python in torch.python] if not is_named(request.base) else []
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
    base = "debian" if is_named(request.base) else request.base
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


# Request + catalog -> Plan: everything that can be known before the first download.

# The packages that move with transformers; all others stay as they were when torch was released,
# so that images of several transformers releases share their large layers.
FAMILY = ("transformers", "tokenizers", "huggingface-hub", "hf-xet", "safetensors", "accelerate")
RELEASES = ("torch", "transformers", "python")  # what is the same in all images of an index
ARCHIVE = "https://github.com/huggingface/transformers/archive/refs/tags/v{version}.tar.gz"


def make_plan(request: Request, catalog: Catalog, today: datetime.date = datetime.date.max) -> Plan:
    """Return the plan of a request that is made on a day (UTC).

    Raises UserFault that names every conflict of the request at once, and a request that works.
    """
    platform = request.platform or PLATFORMS[0]
    catalog = catalog.on(platform)
    chosen = select(request, catalog, today)
    torch, transformers, base = chosen.torch, chosen.transformers, chosen.base
    day = datetime.date.fromisoformat(request.as_of) if request.as_of else None
    as_of = day or max(torch.released, transformers.libraries)
    recipe = catalog.debian if base.reference else base.base
    requirements = _requirements(chosen, request.tasks or tuple(catalog.tasks), catalog)
    plan = Plan(
        platform=platform,
        torch=str(torch.version),
        transformers=str(transformers.version),
        python=base.base.python,
        glibc=base.base.glibc,
        backend=chosen.backend,
        module=torch.module,
        base=_planned_name(base, catalog),
        as_of=as_of,
        family_as_of=day or max(as_of, transformers.released),
        **asdict(Content(**request.content)),  # type: ignore[arg-type]
        source_only=catalog.source_only,
        bindings_index=torch.bindings_index if chosen.ccl else None,
        find_links=torch.find_links if chosen.ccl else None,
        bindings=str(torch.bindings) if chosen.ccl else None,
        ipex=str(torch.ipex) if chosen.ccl else None,
        cpu_suffix=torch.cpu_suffix,
        requirements=requirements,
        user_packages=_user_packages(request, chosen, platform, catalog),
        user_files=request.user_files,
        intel=tuple(requirement for requirement in torch.intel if requirement in requirements),
        base_reference=base.reference,
        base_suite=base.base.suite,
        suite=recipe.suite,
        packages=recipe.packages,
        examples=_examples(request.examples, transformers.version),
        tag="",
        flags=transformers.flags,
        notes=(*request.notes, *_notes(request, chosen, as_of, catalog), *_unfinished(day, today)),
        sources={"torch": torch.source, "transformers": transformers.source},
        support=_support(request, chosen, catalog, today),
    )
    return replace(plan, tag=request.tag or tag_of(plan, plan.user_files))


def require_same_releases(plans: Sequence[Plan]) -> None:
    """Raise UserFault where the images of one index would have different releases."""
    if differ := [name for name in RELEASES if len({getattr(plan, name) for plan in plans}) > 1]:
        releases = (
            f"{plan.platform} " + " ".join(f"{name} {getattr(plan, name)}" for name in differ) for plan in plans
        )
        oldest = {name: min((getattr(plan, name) for plan in plans), key=Version) for name in differ}
        remedies = {**{name: f"--{name} {oldest[name]}" for name in differ}, "python": "--base debian"}
        remedy = " ".join(remedies[name] for name in differ)
        raise UserFault("the images of one index would have different releases", ", ".join(releases), remedy)


def _planned_name(choice: BaseChoice, catalog: Catalog) -> str:
    if choice.reference is None:
        return "debian"
    return "intel" if choice.base is catalog.intel else choice.reference


def _requirements(chosen: Selection, tasks: Iterable[str], catalog: Catalog) -> tuple[str, ...]:
    torch, transformers = chosen.torch, chosen.transformers
    requirements = {"pip", *torch.libraries, f"accelerate{transformers.accelerate}"}
    requirements |= {requirement for task in tasks for requirement in catalog.tasks[task]}
    # What torch was built against decides on NumPy: the lower bound of transformers is dropped.
    requirements |= {r for r in transformers.requires if not (torch.numpy and Requirement(r).name == "numpy")}
    requirements |= {f"numpy{torch.numpy}"} if torch.numpy else set()
    if chosen.ccl:
        # The bindings bring Intel MPI themselves.
        requirements = {r for r in requirements if Requirement(r).name != "impi-rt"}
        requirements |= {f"oneccl_bind_pt=={torch.bindings}", f"intel_extension_for_pytorch=={torch.ipex}"}
        requirements.add(f"accelerate{catalog.ccl_accelerate}")
        requirements |= {name for row in catalog.undeclared if row.pins & requirements for name in row.requires}
    return (f"torch=={torch.version}", f"transformers=={transformers.version}", *sorted(requirements))


def _user_packages(request: Request, chosen: Selection, platform: Platform, catalog: Catalog) -> tuple[str, ...]:
    """Return what the user asked for; raise UserFault where it is another release of what the image is made for."""

    @functools.cache
    def list_conflicts(name: str, release: Version) -> list[str]:
        releases, python = {name: str(release)}, chosen.base.base.python
        return users.list_release_conflicts(request.user_packages, releases, python, platform)

    def fits(torch: Version, transformers: Version) -> bool:
        return not list_conflicts("torch", torch) and not list_conflicts("transformers", transformers)

    names = sorted({"torch", "transformers"} & {users.parse_line(line).name for line in request.user_packages})
    torch, transformers = chosen.torch.version, chosen.transformers.version
    if against := [*list_conflicts("torch", torch), *list_conflicts("transformers", transformers)]:
        pair = find_pair(fits, request, catalog)
        releases = f"--torch {pair[0].version} --transformers {pair[1].version}, or " if pair else ""
        remedy = f"{releases}without {' and '.join(names)} among your packages: the image has them anyway"
        raise UserFault("packages of your own do not go with the image", "; ".join(against), remedy)
    return request.user_packages


def _examples(requested: str | None, version: Version) -> str | None:
    if requested == "none":
        return None
    return requested or ARCHIVE.format(version=version)


def _notes(request: Request, chosen: Selection, as_of: datetime.date, catalog: Catalog) -> Iterable[str]:
    torch, transformers = chosen.torch, chosen.transformers
    if transformers.yanked is not None:
        good = [version for version, row in catalog.transformers.items() if row.yanked is None]
        near = min((version for version in good if version > transformers.version), default=max(good))
        instead = f"build.py --torch {torch.version} --transformers {near}"
        yield f"transformers {transformers.version} was yanked ({transformers.yanked}); the nearest good one: {instead}"
    if not request.transformers and transformers.version != catalog.default_transformers:
        yield f"transformers {transformers.version} is the newest of the table that goes with torch {torch.version}"
    if not request.torch and torch.version != catalog.default_torch:
        yield f"torch {torch.version} is the nearest to the default that goes with transformers {transformers.version}"
    if torch.backend == "ccl" and not chosen.ccl and request.backend is None:
        yield "gloo instead of oneCCL: " + "; ".join(chosen.against_ccl)
    if chosen.ccl or torch.backend == "gloo":
        yield from (f"{note} ({torch.source})" for note in torch.notes)
    if not request.as_of and as_of > torch.released:
        requires = f"transformers {transformers.version} requires newer ones"
        yield f"libraries as of {as_of}, not of torch's release: {requires}"


def _unfinished(day: datetime.date | None, today: datetime.date) -> Iterable[str]:
    if day is not None and day >= today:
        yield f"{day} is not over (UTC): the same command may find other packages later, --lock FILE finds these"


def _support(request: Request, chosen: Selection, catalog: Catalog, today: datetime.date) -> str | None:
    """Say who mends the suite of the base where its security team does not, and which suite it mends."""
    base = chosen.base.base
    if base.security is None or base.is_mended(today):
        return None
    said = f"Debian {base.suite} is mended by {base.mended(today)}"
    for other in catalog.suites:
        asked = replace(request, python=other.python)
        choice = BaseChoice(other.suite, other, None)
        fits = not compatibility.list_conflicts(chosen.torch, chosen.transformers, choice, asked)
        if other.is_mended(today) and fits:
            return f"{said}; {other.suite}, by {other.mended(today)}: --python {other.python}"
    return said
