"""Request + catalog -> Plan: everything that can be known before the first download."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.version import Version

from images.host.errors import UserFault
from images.plan import compatibility, nearest
from images.plan.catalog import Base, Catalog, SourceOnly, Torch, Transformers
from images.plan.compatibility import BaseChoice
from images.plan.request import Problem, Request, problems

__all__ = ["FAMILY", "Plan", "Request", "resolve"]

# The packages that move with transformers; all others stay as they were when torch was released,
# so that images of several transformers releases share their large layers.
FAMILY = ("transformers", "tokenizers", "huggingface-hub", "hf-xet", "safetensors", "accelerate")
# Pinned with a ccl stack, and published on another day than torch or on an index that names no days.
UNDATED = ("oneccl-bind-pt", "intel-extension-for-pytorch")
ARCHIVE = "https://github.com/huggingface/transformers/archive/refs/tags/v{version}.tar.gz"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be built: pins, the days as of which the rest is resolved, the base, and notes for the user.

    `base_reference` names an image to build on; without one, `base` is made from Debian's packages.
    `base_name` is what was asked for: debian, intel or a reference; `debian` has the small things that another lacks.
    `undated` packages are pinned and exempt from the days; `index` and `find_links` are where Intel keeps them.
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
    undated: tuple[str, ...]
    index: str | None
    find_links: str | None
    source_only: tuple[SourceOnly, ...]
    examples: str | None
    tag: str
    wheelhouse: str | None
    trim: bool
    bytecode: bool
    notes: tuple[str, ...]


def resolve(request: Request, catalog: Catalog) -> Plan:
    """Return the plan of a request.

    Raises UserFault that names every conflict of the request at once, and the nearest request that works.
    """
    _refuse(problems(request, catalog), request, catalog)
    torch, transformers = _pair(request, catalog)
    choice = _base(torch, transformers, request, catalog)
    backend, against = compatibility.backend(torch, transformers, choice.base.python, request.constraints)
    ccl = backend == "ccl"
    asked = datetime.date.fromisoformat(request.as_of) if request.as_of else None
    as_of = asked or max(torch.released, transformers.libraries)
    return Plan(
        torch=torch,
        transformers=transformers,
        python=choice.base.python,
        base=choice.base,
        base_name=_base_name(choice, catalog),
        base_reference=choice.reference,
        debian=catalog.debian,
        backend=backend,
        requirements=_requirements(torch, transformers, request.tasks or tuple(catalog.tasks), catalog, ccl=ccl),
        as_of=as_of,
        family_as_of=asked or max(as_of, transformers.released),
        undated=UNDATED if ccl else (),
        index=torch.index if ccl else None,
        find_links=torch.find_links if ccl else None,
        source_only=catalog.source_only,
        examples=_examples(request.examples, transformers.version),
        tag=request.tag or f"multinode:torch{torch.version}-transformers{transformers.version}",
        wheelhouse=request.wheelhouse,
        trim=request.trim,
        bytecode=request.bytecode,
        notes=tuple(_notes(request, torch, transformers, against, as_of, catalog, ccl=ccl)),
    )


def _refuse(found: list[Problem], request: Request, catalog: Catalog) -> None:
    if not found:
        return
    fact, value, remedy = found[0]
    if len(found) > 1:
        fact = "several values cannot be used"
        value = "; ".join(f"{fact}: {value}" for fact, value, _ in found)
        remedy = " ".join(remedy for _, _, remedy in found)
    elif (asked := _corrected(remedy, request)) is not None:
        try:
            resolve(asked, catalog)
        except UserFault as further:
            remedy = further.remedy
    raise UserFault(fact, value, remedy)


def _corrected(remedy: str, request: Request) -> Request | None:
    """Put the version that a remedy names into the request."""
    option, _, version = remedy.partition(" ")
    if option == "--torch":
        return replace(request, torch=version)
    return replace(request, transformers=version) if option == "--transformers" else None


def _pair(request: Request, catalog: Catalog) -> tuple[Torch, Transformers]:
    """Take the two releases; the one that was not asked for follows the one that was."""
    torch = catalog.torch[Version(request.torch) if request.torch else catalog.default_torch]
    row = catalog.transformers[Version(request.transformers) if request.transformers else catalog.default_transformers]
    limits = request.constraints
    if nearest.works(torch, row, limits, catalog) or (request.torch and request.transformers):
        return torch, row
    if not request.transformers and (found := nearest.transformers_for(torch, row.version, limits, catalog)):
        return torch, catalog.transformers[found]
    if not request.torch and (found := nearest.torch_for(row, torch.version, limits, catalog)):
        return catalog.torch[found], row
    return torch, row


def _base(torch: Torch, transformers: Transformers, request: Request, catalog: Catalog) -> BaseChoice:
    """Choose the first base without a conflict; without one, raise all conflicts together."""
    choices = compatibility.bases(torch, request.constraints, catalog)
    against = {choice: compatibility.conflicts(torch, transformers, choice, request.constraints) for choice in choices}
    early = list(_too_early(request.as_of, torch, transformers))
    good = next((choice for choice, found in against.items() if not found), None)
    if good is not None and not early:
        return good
    facts = [] if good else [fact for found in against.values() for fact in found]
    near_torch, near, kept = nearest.nearest_pair(torch, transformers, request.constraints, catalog)
    day = None
    if request.as_of:
        earliest = _earliest_day(catalog.torch[near_torch], catalog.transformers[near])
        day = max(datetime.date.fromisoformat(request.as_of), earliest)
    remedy = nearest.command(near_torch, near, kept, day)
    raise UserFault("these do not go together", "; ".join(dict.fromkeys([*facts, *early])), remedy)


def _base_name(choice: BaseChoice, catalog: Catalog) -> str:
    if choice.reference is None:
        return "debian"
    return "intel" if choice.base is catalog.intel else choice.reference


def _earliest_day(torch: Torch, transformers: Transformers) -> datetime.date:
    """Return the first day on which everything in the plan had been published."""
    return max(torch.released, transformers.released, transformers.libraries)


def _too_early(as_of: str | None, torch: Torch, transformers: Transformers) -> Iterable[str]:
    if as_of and datetime.date.fromisoformat(as_of) < _earliest_day(torch, transformers):
        family = (
            f"transformers {transformers.version} of {transformers.released}, libraries for it {transformers.libraries}"
        )
        yield f"{as_of} is before the releases: torch {torch.version} is of {torch.released}, {family} (PyPI)"


def _requirements(
    torch: Torch, transformers: Transformers, tasks: Iterable[str], catalog: Catalog, *, ccl: bool
) -> tuple[str, ...]:
    requirements = {"pip", *torch.intel, f"accelerate{transformers.accelerate}"}
    requirements |= {requirement for task in tasks for requirement in catalog.tasks[task]}
    # What torch was built against decides on NumPy: the lower bound of transformers is dropped.
    requirements |= {r for r in transformers.requires if not (torch.numpy and Requirement(r).name == "numpy")}
    requirements |= {f"numpy{torch.numpy}"} if torch.numpy else set()
    if ccl:
        # The bindings bring Intel MPI themselves.
        requirements = {r for r in requirements if Requirement(r).name != "impi-rt"}
        requirements |= {f"oneccl_bind_pt=={torch.bindings}", f"intel_extension_for_pytorch=={torch.ipex}"}
        requirements.add(f"accelerate{catalog.ccl_accelerate}")
    return (f"torch=={torch.version}", f"transformers=={transformers.version}", *sorted(requirements))


def _examples(asked: str | None, version: Version) -> str | None:
    if asked == "none":
        return None
    return asked or ARCHIVE.format(version=version)


def _notes(
    request: Request, torch: Torch, transformers: Transformers, against: list[str], as_of: datetime.date,
    catalog: Catalog, *, ccl: bool,
) -> Iterable[str]:  # fmt: skip
    if transformers.yanked is not None:
        good = [version for version, row in catalog.transformers.items() if row.yanked is None]
        near = min((version for version in good if version > transformers.version), default=max(good))
        yield f"transformers {transformers.version} was yanked ({transformers.yanked}); the nearest good one is {near}"
    if not request.transformers and transformers.version != catalog.default_transformers:
        yield f"transformers {transformers.version} is the newest of the table that goes with torch {torch.version}"
    if not request.torch and torch.version != catalog.default_torch:
        yield f"torch {torch.version} is the nearest to the default that goes with transformers {transformers.version}"
    if torch.backend == "ccl" and not ccl and request.backend is None:
        yield "gloo instead of oneCCL: " + "; ".join(against)
    if ccl or torch.backend == "gloo":
        yield from (f"{note} ({torch.source})" for note in torch.notes)
    if not request.as_of and as_of > torch.released:
        requires = f"transformers {transformers.version} requires newer ones"
        yield f"libraries as of {as_of}, not of torch's release: {requires}"
