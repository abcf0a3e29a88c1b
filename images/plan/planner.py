"""Request + catalog -> Plan: everything that can be known before the first download."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from packaging.requirements import Requirement
from packaging.version import Version

from images.content import Content
from images.host.errors import UserFault
from images.plan import compatibility
from images.plan import requirements as users
from images.plan.catalog import Catalog
from images.plan.choose import Selection, find_pair, select
from images.plan.compatibility import BaseChoice
from images.plan.pins import tag_of
from images.plan.plan import Plan
from images.plan.request import Request
from images.platforms import PLATFORMS, Platform

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
        index=torch.index if chosen.ccl else None,
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
