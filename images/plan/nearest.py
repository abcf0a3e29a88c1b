"""The nearest thing that exists to a thing that does not, and the nearest request that works."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from packaging.version import Version

from images.plan import compatibility
from images.plan.catalog import Catalog, Torch, Transformers
from images.plan.compatibility import Wishes


def nearest_version(wanted: Version, known: Iterable[Version]) -> Version:
    """Find the newest release that is not later than `wanted`, or the oldest of all where every one is later."""
    return next(by_nearness(wanted, known))


def by_nearness(wanted: Version, known: Iterable[Version]) -> Iterator[Version]:
    """Go back from `wanted` to the oldest, then on from it to the newest."""
    every = sorted(known)
    yield from (version for version in reversed(every) if version <= wanted)
    yield from (version for version in every if version > wanted)


def close_match(word: str, known: Collection[str]) -> str | None:
    """Find the word that was probably meant, or None."""
    return next(iter(difflib.get_close_matches(word, known, n=1)), None)


def works(torch: Torch, transformers: Transformers, wishes: Wishes, catalog: Catalog) -> bool:
    """Tell whether some base carries this pair as wished."""
    every = compatibility.grounds(torch, wishes, catalog)
    return any(not compatibility.conflicts(torch, transformers, ground, wishes) for ground in every)


def transformers_for(torch: Torch, near: Version, wishes: Wishes, catalog: Catalog) -> Version | None:
    """Find the release of transformers nearest to `near` that goes with this torch; withdrawn ones do not count."""
    known: dict[str, bool] = {}  # releases of one era want the same

    def fits(version: Version) -> bool:
        row = catalog.transformers[version]
        if row.era not in known:
            known[row.era] = works(torch, row, wishes, catalog)
        return known[row.era] and row.yanked is None

    return _first(fits, by_nearness(near, catalog.transformers))


def torch_for(transformers: Transformers, near: Version, wishes: Wishes, catalog: Catalog) -> Version | None:
    """Find the release of torch nearest to `near` that goes with this transformers."""
    return _first(lambda v: works(catalog.torch[v], transformers, wishes, catalog), by_nearness(near, catalog.torch))


def _first(fits: Callable[[Version], bool], versions: Iterable[Version]) -> Version | None:
    return next((version for version in versions if fits(version)), None)


def nearest_pair(
    torch: Torch, transformers: Transformers, wishes: Wishes, catalog: Catalog
) -> tuple[Version, Version, Wishes]:
    """Find the nearest request that works: another transformers, else another torch, else with fewer wishes."""
    fewer = replace(wishes, backend=None)
    for kept in dict.fromkeys((wishes, fewer, replace(fewer, python=None, base=None))):
        if kept.python is None and kept.base not in (None, "debian", "intel"):
            continue
        if works(torch, transformers, kept, catalog):
            return torch.version, transformers.version, kept
        if other := transformers_for(torch, transformers.version, kept, catalog):
            return torch.version, other, kept
        if other := torch_for(transformers, torch.version, kept, catalog):
            return other, transformers.version, kept
    return catalog.default_torch, catalog.default_transformers, Wishes()


def command(torch: Version, transformers: Version, wishes: Wishes, as_of: object = None) -> str:
    """Write a request as it is typed."""
    words = ["python", "build.py", "--torch", str(torch), "--transformers", str(transformers)]
    for name, value in (("python", wishes.python), ("base", wishes.base), ("backend", wishes.backend)):
        words += [f"--{name}", value] if value else []
    return shlex.join([*words, *(["--as-of", str(as_of)] if as_of else [])])
