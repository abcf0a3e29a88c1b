"""What goes together: each rule returns all of its conflicts as facts with their source."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from images.plan.catalog import BaseRow, Catalog, Torch, Transformers
from images.plan.plan import Request

ENTRYPOINT = Version("3.9")  # the oldest Python that multinode_image/ runs on


@dataclass(frozen=True)
class BaseChoice:
    """A base that the image could be built on, and its reference where it is pulled from a registry."""

    name: str
    base: BaseRow
    reference: str | None


def list_bases(torch: Torch, request: Request, catalog: Catalog) -> tuple[BaseChoice, ...]:
    """Return the bases that could be used, the preferred one first: Intel's where it has an image of this torch."""
    suite = next((suite for suite in catalog.suites if suite.python == request.python), catalog.debian)
    debian = BaseChoice(f"the debian base ({suite.suite})", suite, None)
    tag = f"{catalog.intel.repository}:{torch.image}" if torch.image else None
    intel = BaseChoice("Intel's image", catalog.intel, tag)
    if request.base is None:
        return (intel, debian) if tag else (debian,)
    if request.base in ("debian", "intel"):
        return (debian,) if request.base == "debian" else (intel,)
    named = BaseRow(suite=request.base, python=request.python or "", glibc=catalog.reference_glibc, packages=())
    return (BaseChoice(request.base, named, request.base),)


def choose_backend(torch: Torch, transformers: Transformers, python: str, request: Request) -> tuple[str, list[str]]:
    """Return the backend (ccl where everything allows it, else gloo), and the reasons against ccl."""
    against = list(_against_ccl(torch, transformers, python))
    if request.backend:
        return request.backend, against
    return ("gloo" if against else "ccl"), against


def _against_ccl(torch: Torch, transformers: Transformers, python: str) -> Iterable[str]:
    if torch.backend != "ccl":
        yield f"torch {torch.version} has no oneCCL bindings for the CPU ({torch.source})"
    elif python not in torch.ccl_python:
        stack = f"oneccl_bind_pt {torch.bindings} and IPEX {torch.ipex}"
        yield f"{stack} are made for Python {_span(torch.ccl_python)}, not {python} ({torch.source})"
    if not transformers.ccl:
        yield f"transformers {transformers.version} no longer supports ccl ({transformers.source})"


def list_conflicts(torch: Torch, transformers: Transformers, choice: BaseChoice, request: Request) -> list[str]:
    """Return everything that keeps these from being one image."""
    base = choice.base
    conflicts = [*_versions(torch, transformers), *_check_base(torch, choice, request)]
    if not _within(base.python, transformers.python):
        requirement = f"transformers {transformers.version} requires Python {transformers.python}"
        conflicts.append(f"{requirement}, {choice.name} has {base.python} ({transformers.source})")
    if base.python not in torch.python:
        wheels = f"torch {torch.version} has wheels for Python {_span(torch.python)}"
        other = f"it takes an image with one of these: --base IMAGE --python {torch.python[-1]}"
        conflicts.append(f"{wheels}, {choice.name} has {base.python}; {other} ({torch.source})")
    if request.backend == "ccl":
        conflicts += _against_ccl(torch, transformers, base.python)
    return conflicts


@functools.cache
def _within(version: Version | str, range_: str) -> bool:
    """Compare once: the search for the nearest request asks the same thousands of times."""
    return version in SpecifierSet(range_)


def _versions(torch: Torch, transformers: Transformers) -> Iterable[str]:
    if not _within(torch.version, transformers.torch):
        requirement = f"transformers {transformers.version} requires torch {transformers.torch}"
        yield f"{requirement}, not {torch.version} ({transformers.source})"


def _check_base(torch: Torch, choice: BaseChoice, request: Request) -> Iterable[str]:
    if Version(choice.base.python) < ENTRYPOINT:
        yield f"the entrypoint requires Python {ENTRYPOINT} or newer, {choice.name} has {choice.base.python}"
    if request.base == "intel" and not torch.image:
        yield f"Intel has no image for several nodes with torch {torch.version} (ai-containers pytorch/README.md)"
    if request.python and request.python != choice.base.python:
        yield f"Python {request.python} was asked for, {choice.name} has {choice.base.python}"
    if torch.glibc and Version(torch.glibc) > Version(choice.base.glibc):
        yield f"torch {torch.version} and what goes with it require glibc {torch.glibc}, {choice.name} has " + (
            f"{choice.base.glibc} ({torch.source})"
        )


def _span(pythons: tuple[str, ...]) -> str:
    return pythons[0] if len(pythons) == 1 else f"{pythons[0]} to {pythons[-1]}"
