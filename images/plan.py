"""Request + catalog -> Plan: everything that can be known before the first download."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from images.catalog import Base, Catalog, SourceOnly, Torch, Transformers
from images.errors import UserFault
from images.suggest import close_match, nearest_version

# The packages that move with transformers; all others stay as they were when torch was released,
# so that images of several transformers releases share their large layers.
FAMILY = ("transformers", "tokenizers", "huggingface-hub", "hf-xet", "safetensors", "accelerate")
ARCHIVE = "https://github.com/huggingface/transformers/archive/refs/tags/v{version}.tar.gz"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None and () stand for the default."""

    torch: str | None = None
    transformers: str | None = None
    tasks: tuple[str, ...] = ()
    examples: str | None = None
    tag: str | None = None
    wheelhouse: str | None = None
    trim: bool = True
    bytecode: bool = True


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be built: pins, the days as of which the rest is resolved, the base, and what to tell the user."""

    torch: Torch
    transformers: Transformers
    base: Base
    requirements: tuple[str, ...]
    as_of: datetime.date
    family_as_of: datetime.date
    source_only: tuple[SourceOnly, ...]
    examples: str | None
    tag: str
    wheelhouse: str | None
    trim: bool
    bytecode: bool
    notes: tuple[str, ...]


def resolve(request: Request, catalog: Catalog) -> Plan:
    """Turn a request into a plan.

    Raises UserFault that names every conflict of the request at once.
    """
    torch = catalog.torch[_version("torch", request.torch, catalog.default_torch, catalog.torch)]
    transformers = catalog.transformers[
        _version("transformers", request.transformers, catalog.default_transformers, catalog.transformers)
    ]
    tasks = _tasks(request.tasks, catalog)
    _refuse_conflicts(torch, transformers, catalog)
    newest = max(torch.released, transformers.released)
    requirements = {*torch.intel, *transformers.requires, "pip", *(r for task in tasks for r in catalog.tasks[task])}
    return Plan(
        torch=torch,
        transformers=transformers,
        base=catalog.debian,
        requirements=(f"torch=={torch.version}", f"transformers=={transformers.version}", *sorted(requirements)),
        as_of=torch.released,
        family_as_of=newest,
        source_only=catalog.source_only,
        examples=_examples(request.examples, transformers.version),
        tag=request.tag or f"multinode:torch{torch.version}-transformers{transformers.version}",
        wheelhouse=request.wheelhouse,
        trim=request.trim,
        bytecode=request.bytecode,
        notes=tuple(_notes(transformers, catalog)),
    )


def _version(name: str, asked: str | None, default: Version, known: Collection[Version]) -> Version:
    if asked is None:
        return default
    try:
        wanted = Version(asked)
    except InvalidVersion as error:
        raise UserFault(f"that is not a version of {name}", repr(asked), f"--{name} {default}") from error
    if wanted not in known:
        nearest = nearest_version(wanted, known)
        raise UserFault(f"no such release of {name} in images/versions.toml", asked, f"--{name} {nearest}")
    return wanted


def _tasks(asked: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
    for task in asked:
        if task not in catalog.tasks:
            guess = close_match(task, catalog.tasks.keys())
            remedy = f"--tasks {guess}" if guess else "--tasks with one or more of " + ", ".join(catalog.tasks)
            raise UserFault("no example folder of that name", repr(task), remedy)
    return asked or tuple(catalog.tasks)


def _refuse_conflicts(torch: Torch, transformers: Transformers, catalog: Catalog) -> None:
    conflicts = list(_conflicts(torch, transformers, catalog.debian))
    if conflicts:
        fitting = [v for v, row in catalog.transformers.items() if not list(_conflicts(torch, row, catalog.debian))]
        near = nearest_version(transformers.version, fitting or [catalog.default_transformers])
        remedy = f"python build.py --torch {torch.version} --transformers {near}"
        raise UserFault("these do not go together", "; ".join(conflicts), remedy)


def _conflicts(torch: Torch, transformers: Transformers, base: Base) -> Iterable[str]:
    if torch.version not in transformers.torch:
        yield f"transformers {transformers.version} wants torch {transformers.torch}, not {torch.version}"
    if base.python not in transformers.python:
        yield f"transformers {transformers.version} wants Python {transformers.python}, {base.suite} has {base.python}"
    if base.python not in torch.python:
        yield f"torch {torch.version} is known for Python {', '.join(torch.python)}, {base.suite} has {base.python}"


def _examples(asked: str | None, version: Version) -> str | None:
    if asked == "none":
        return None
    return asked or ARCHIVE.format(version=version)


def _notes(transformers: Transformers, catalog: Catalog) -> Iterable[str]:
    if transformers.yanked is not None:
        good = [version for version, row in catalog.transformers.items() if row.yanked is None]
        near = min((version for version in good if version > transformers.version), default=good[-1])
        yield f"transformers {transformers.version} was yanked ({transformers.yanked}); the nearest good one is {near}"
