"""What goes together: each rule answers facts with their source, and none stops at the first."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from images.plan.catalog import Base, Catalog, Torch, Transformers

ENTRYPOINT = Version("3.9")  # the oldest Python that entrypoint/ runs on


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What was asked for beside the two versions; None means: whatever fits."""

    python: str | None = None
    base: str | None = None
    backend: str | None = None


@dataclass(frozen=True)
class Ground:
    """A base that an image could stand on, and its reference where it is taken from a registry."""

    name: str
    base: Base
    reference: str | None


def grounds(torch: Torch, wishes: Wishes, catalog: Catalog) -> tuple[Ground, ...]:
    """List the bases in question, the preferred one first: Intel's where it has an image of this torch."""
    debian = Ground(f"the debian base ({catalog.debian.suite})", catalog.debian, None)
    tag = f"{catalog.intel_repository}:{torch.image}" if torch.image else None
    intel = Ground("Intel's image", catalog.intel, tag)
    if wishes.base is None:
        return (intel, debian) if tag else (debian,)
    if wishes.base in ("debian", "intel"):
        return (debian,) if wishes.base == "debian" else (intel,)
    own = Base(suite=wishes.base, python=wishes.python or "", glibc=catalog.reference_glibc, packages=())
    return (Ground(wishes.base, own, wishes.base),)


def backend(torch: Torch, transformers: Transformers, python: str, wishes: Wishes) -> tuple[str, list[str]]:
    """Choose ccl where everything allows it, else gloo; answer it, and what stood against ccl."""
    against = list(_against_ccl(torch, transformers, python))
    if wishes.backend:
        return wishes.backend, against
    return ("gloo" if against else "ccl"), against


def _against_ccl(torch: Torch, transformers: Transformers, python: str) -> Iterable[str]:
    if torch.backend != "ccl":
        yield f"torch {torch.version} has no oneCCL bindings for the CPU ({torch.source})"
    elif python not in torch.ccl_python:
        stack = f"oneccl_bind_pt {torch.bindings} and IPEX {torch.ipex}"
        yield f"{stack} are made for Python {_span(torch.ccl_python)}, not {python} ({torch.source})"
    if not transformers.ccl:
        yield f"transformers {transformers.version} no longer knows ccl ({transformers.source})"


def conflicts(torch: Torch, transformers: Transformers, ground: Ground, wishes: Wishes) -> list[str]:
    """Find everything that keeps these from being one image."""
    base = ground.base
    found = [*_versions(torch, transformers), *_base(torch, ground, wishes)]
    if not _within(base.python, transformers.python):
        wanted = f"transformers {transformers.version} wants Python {transformers.python}"
        found.append(f"{wanted}, {ground.name} has {base.python} ({transformers.source})")
    if base.python not in torch.python:
        made = f"torch {torch.version} has wheels for Python {_span(torch.python)}"
        other = f"it takes an image with one of these: --base IMAGE --python {torch.python[-1]}"
        found.append(f"{made}, {ground.name} has {base.python}; {other} ({torch.source})")
    if wishes.backend == "ccl":
        found += _against_ccl(torch, transformers, base.python)
    return found


@functools.cache
def _within(version: Version | str, wanted: str) -> bool:
    """Compare once: a search for the nearest request asks the same thousands of times."""
    return version in SpecifierSet(wanted)


def _versions(torch: Torch, transformers: Transformers) -> Iterable[str]:
    if not _within(torch.version, transformers.torch):
        wanted = f"transformers {transformers.version} wants torch {transformers.torch}"
        yield f"{wanted}, not {torch.version} ({transformers.source})"


def _base(torch: Torch, ground: Ground, wishes: Wishes) -> Iterable[str]:
    if Version(ground.base.python) < ENTRYPOINT:
        yield f"the entrypoint wants Python {ENTRYPOINT} or newer, {ground.name} has {ground.base.python}"
    if wishes.base == "intel" and not torch.image:
        yield f"Intel has no image for several nodes with torch {torch.version} (ai-containers pytorch/README.md)"
    if wishes.python and wishes.python != ground.base.python:
        yield f"Python {wishes.python} was asked for, {ground.name} has {ground.base.python}"
    if torch.glibc and Version(torch.glibc) > Version(ground.base.glibc):
        yield f"torch {torch.version} and what goes with it want glibc {torch.glibc}, {ground.name} has " + (
            f"{ground.base.glibc} ({torch.source})"
        )


def _span(pythons: tuple[str, ...]) -> str:
    return pythons[0] if len(pythons) == 1 else f"{pythons[0]} to {pythons[-1]}"
