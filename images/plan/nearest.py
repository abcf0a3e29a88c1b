"""The nearest thing that exists to a thing that does not, and the nearest request that works."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from packaging.version import Version

from images.model import Request
from images.plan import compatibility
from images.plan.catalog import Catalog, Torch, Transformers


def nearest_version(asked: Version, known: Iterable[Version]) -> Version:
    """Return the newest release that is not later than `asked`, or the oldest of all where every one is later."""
    return next(by_nearness(asked, known))


def by_nearness(asked: Version, known: Iterable[Version]) -> Iterator[Version]:
    """Yield the releases from `asked` back to the oldest, then those after it up to the newest."""
    every = sorted(known)
    yield from (version for version in reversed(every) if version <= asked)
    yield from (version for version in every if version > asked)


def close_match(word: str, known: Collection[str]) -> str | None:
    """Return the word that was probably meant, or None."""
    return next(iter(difflib.get_close_matches(word, known, n=1)), None)


def works(torch: Torch, transformers: Transformers, request: Request, catalog: Catalog) -> bool:
    """Return whether this pair can be built on some base under these request."""
    choices = compatibility.bases(torch, request, catalog)
    return any(not compatibility.conflicts(torch, transformers, choice, request) for choice in choices)


def transformers_for(torch: Torch, near: Version, request: Request, catalog: Catalog) -> Version | None:
    """Return the release of transformers nearest to `near` that goes with this torch, never a withdrawn one."""
    known: dict[str, bool] = {}  # releases of one era require the same

    def fits(version: Version) -> bool:
        row = catalog.transformers[version]
        if row.era not in known:
            known[row.era] = works(torch, row, request, catalog)
        return known[row.era] and row.yanked is None

    return _first(fits, by_nearness(near, catalog.transformers))


def torch_for(transformers: Transformers, near: Version, request: Request, catalog: Catalog) -> Version | None:
    """Return the release of torch nearest to `near` that goes with this transformers."""

    def fits(version: Version) -> bool:
        return works(catalog.torch[version], transformers, request, catalog)

    return _first(fits, by_nearness(near, catalog.torch))


def _first(fits: Callable[[Version], bool], versions: Iterable[Version]) -> Version | None:
    return next((version for version in versions if fits(version)), None)


def nearest_pair(
    torch: Torch, transformers: Transformers, request: Request, catalog: Catalog
) -> tuple[Version, Version, Request]:
    """Return the nearest request that works: another transformers, torch or Python, else fewer request."""
    fewer = replace(request, backend=None)
    own = request.base not in (None, "debian", "intel")
    pythons = [replace(request, python=each) for each in torch.python if own]
    pythons.sort(key=lambda each: not works(torch, transformers, each, catalog))  # those of this very pair first
    for kept in dict.fromkeys((request, *pythons, fewer, replace(fewer, python=None, base=None))):
        if kept.python is None and kept.base not in (None, "debian", "intel"):
            continue
        if works(torch, transformers, kept, catalog):
            return torch.version, transformers.version, kept
        if other := transformers_for(torch, transformers.version, kept, catalog):
            return torch.version, other, kept
        if other := torch_for(transformers, torch.version, kept, catalog):
            return other, transformers.version, kept
    return catalog.default_torch, catalog.default_transformers, Request()


def command(torch: Version, transformers: Version, request: Request, as_of: object = None) -> str:
    """Return a request as it is typed."""
    words = ["python", "build.py", "--torch", str(torch), "--transformers", str(transformers)]
    for name, value in (("python", request.python), ("base", request.base), ("backend", request.backend)):
        words += [f"--{name}", value] if value else []
    return shlex.join([*words, *(["--as-of", str(as_of)] if as_of else [])])
