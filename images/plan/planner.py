"""Request + catalog -> Plan: everything that can be known before the first download."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.version import Version

from images.host.errors import UserFault
from images.model import Request
from images.plan.catalog import Base, Catalog, SourceOnly, Torch, Transformers
from images.plan.compatibility import BaseChoice
from images.plan.request import Problem, problems
from images.plan.selection import Selection, day_problems, select

__all__ = ["FAMILY", "Plan", "Request", "resolve"]

# The packages that move with transformers; all others stay as they were when torch was released,
# so that images of several transformers releases share their large layers.
FAMILY = ("transformers", "tokenizers", "huggingface-hub", "hf-xet", "safetensors", "accelerate")
ARCHIVE = "https://github.com/huggingface/transformers/archive/refs/tags/v{version}.tar.gz"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be built: pins, the days as of which the rest is resolved, the base, and notes for the user.

    `base_reference` names an image to build on; without one, `base` is made from Debian's packages.
    `base_name` is what was asked for: debian, intel or a reference; `debian` has the suite of what a pulled base lacks.
    `index` and `find_links` are where Intel keeps the oneCCL bindings.
    """

    torch: Torch
    transformers: Transformers
    python: str
    base: Base
    base_name: str
    base_reference: str | None
    debian: Base
    backend: str
    requirements: tuple[str, ...]
    as_of: datetime.date
    family_as_of: datetime.date
    index: str | None
    find_links: str | None
    source_only: tuple[SourceOnly, ...]
    examples: str | None
    tag: str
    wheelhouse: str | None
    trim: bool
    bytecode: bool
    notes: tuple[str, ...]


def resolve(request: Request, catalog: Catalog, today: datetime.date = datetime.date.max) -> Plan:
    """Return the plan of a request that is made on a day (UTC).

    Raises UserFault that names every conflict of the request at once, and the nearest request that works.
    """
    found = problems(request, catalog)
    _refuse([*day_problems(request, found, catalog, today), *found], catalog, today)
    chosen = select(request, catalog, today)
    torch, transformers = chosen.torch, chosen.transformers
    asked = datetime.date.fromisoformat(request.as_of) if request.as_of else None
    as_of = asked or max(torch.released, transformers.libraries)
    return Plan(
        torch=torch,
        transformers=transformers,
        python=chosen.base_choice.base.python,
        base=chosen.base_choice.base,
        base_name=_base_name(chosen.base_choice, catalog),
        base_reference=chosen.base_choice.reference,
        debian=catalog.debian,
        backend=chosen.backend,
        requirements=_requirements(chosen, request.tasks or tuple(catalog.tasks), catalog),
        as_of=as_of,
        family_as_of=asked or max(as_of, transformers.released),
        index=torch.index if chosen.ccl else None,
        find_links=torch.find_links if chosen.ccl else None,
        source_only=catalog.source_only,
        examples=_examples(request.examples, transformers.version),
        tag=request.tag or f"multinode:torch{torch.version}-transformers{transformers.version}",
        wheelhouse=request.wheelhouse,
        trim=request.trim is not False,
        bytecode=request.bytecode is not False,
        notes=(*_notes(request, chosen, as_of, catalog), *_unfinished(asked, today)),
    )


def _refuse(found: list[Problem], catalog: Catalog, today: datetime.date) -> None:
    """Raise UserFault that names every problem; a single one gets a remedy that works with the rest of the request."""
    if len(found) == 1:
        raise UserFault(found[0].fact, found[0].value, _remedy(found[0], catalog, today))
    if found:
        values = "; ".join(f"{each.fact}: {each.value}" for each in found)
        raise UserFault("several values cannot be used", values, " ".join(each.remedy for each in found))


def _remedy(problem: Problem, catalog: Catalog, today: datetime.date) -> str:
    """Return what to type instead; where the corrected request has conflicts, the nearest request that works."""
    if problem.corrected is not None:
        try:
            resolve(problem.corrected, catalog, today)
        except UserFault as further:
            return further.remedy
    return problem.remedy


def _base_name(choice: BaseChoice, catalog: Catalog) -> str:
    if choice.reference is None:
        return "debian"
    return "intel" if choice.base is catalog.intel else choice.reference


def _requirements(chosen: Selection, tasks: Iterable[str], catalog: Catalog) -> tuple[str, ...]:
    torch, transformers = chosen.torch, chosen.transformers
    requirements = {"pip", *torch.intel, f"accelerate{transformers.accelerate}"}
    requirements |= {requirement for task in tasks for requirement in catalog.tasks[task]}
    # What torch was built against decides on NumPy: the lower bound of transformers is dropped.
    requirements |= {r for r in transformers.requires if not (torch.numpy and Requirement(r).name == "numpy")}
    requirements |= {f"numpy{torch.numpy}"} if torch.numpy else set()
    if chosen.ccl:
        # The bindings bring Intel MPI themselves.
        requirements = {r for r in requirements if Requirement(r).name != "impi-rt"}
        requirements |= {f"oneccl_bind_pt=={torch.bindings}", f"intel_extension_for_pytorch=={torch.ipex}"}
        requirements.add(f"accelerate{catalog.ccl_accelerate}")
        requirements |= {each for row in catalog.undeclared if row.pins & requirements for each in row.requires}
    return (f"torch=={torch.version}", f"transformers=={transformers.version}", *sorted(requirements))


def _examples(asked: str | None, version: Version) -> str | None:
    if asked == "none":
        return None
    return asked or ARCHIVE.format(version=version)


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


def _unfinished(asked: datetime.date | None, today: datetime.date) -> Iterable[str]:
    if asked is not None and asked >= today:
        yield f"{asked} is not over (UTC): the same command may find other packages later, --lock FILE finds these"
