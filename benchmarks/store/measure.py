"""The part `store`: many releases of transformers on one torch in one store, disk and seconds after each."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.sides.multinode import Multinode
from images.host.errors import Fault
from images.plan import catalog, planner
from images.plan.catalog import Catalog
from images.plan.request import Request

RUNS = 50  # releases
MARKS = (1, 10, 50)


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Build the newest releases, from the newest on; `runs` says how many at most."""
    multinode, table, curve = Multinode(scratch.directory), catalog.load(), list[list[float]]()
    before = 0
    for index, release in zip(scratch.rounds(runs), releases(table, runs), strict=False):
        number = index + 1
        began = time.monotonic()
        built = multinode.run("--torch", str(table.default_torch), "--transformers", release, "--no-load")
        seconds, used = time.monotonic() - began, disk(scratch.directory / "cache")
        scratch.say(f"{number} of {runs}: {release}, {seconds:.1f} s, {used / 1e6:.0f} MB")
        curve.append([number, used, round(seconds, 2)])
        figures.add("disk of the first" if number == 1 else "disk of a further release", used - before, "bytes")
        figures.add("seconds of the first" if number == 1 else "seconds of a further release", seconds)
        if number > 1:
            figures.add("new layers of a further release", changed_bytes(built["layers"]), "bytes")
        before = used
    keep(figures, curve)
    figures.facts["curve"] = curve


def keep(figures: Figures, curve: list[list[float]]) -> None:
    """Keep disk and seconds after 1, 10 and 50 releases, as figures of their own."""
    for mark in MARKS:
        if len(curve) >= mark:
            figures.add(f"disk of {mark}", curve[mark - 1][1], "bytes")
            figures.add(f"seconds of {mark}", sum(row[2] for row in curve[:mark]))


def releases(table: Catalog, most: int) -> list[str]:
    """Return the newest releases of transformers that work with the default torch and are not yanked, newest first."""
    chosen = list[str]()
    for version in sorted(table.transformers, reverse=True):
        if len(chosen) == most:
            break
        if not table.transformers[version].yanked and _works(str(version), table):
            chosen.append(str(version))
    return chosen


def _works(release: str, table: Catalog) -> bool:
    """Return whether a release can be planned."""
    try:
        planner.make_plan(Request(torch=str(table.default_torch), transformers=release), table)
    except Fault:
        return False
    return True


def disk(place: Path) -> int:
    """Return the bytes that a directory takes on the disk, a file with several names counted once."""
    seen: set[tuple[int, int]] = set()
    return sum(_taken(Path(directory), names, seen) for directory, _, names in os.walk(place))


def _taken(directory: Path, names: Collection[str], seen: set[tuple[int, int]]) -> int:
    total = 0
    for name in names:
        about = (directory / name).lstat()
        if (about.st_dev, about.st_ino) not in seen:
            seen.add((about.st_dev, about.st_ino))
            total += about.st_blocks * 512
    return total


def changed_bytes(layers: list[dict[str, object]]) -> int:
    """Return the compressed bytes of the layers that a build could not take from another."""
    return sum(int(str(layer["size"])) for layer in layers if not layer["reused"])
