"""The whole way of an image: plan -> locked files -> layers -> image, each step by the module that knows it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from images import assemble, base, bill, check, debs, examples, labels, lock, oci, origin, ours, ship
from images.lockfile import Archive, Locked
from images.plan import Plan
from images.progress import Progress
from images.sources import Sources
from images.store import Store


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """What every step works with; `pip` is where packages come from, None where nothing may be fetched."""

    store: Store
    environ: Mapping[str, str]
    today: datetime.date
    progress: Progress
    jobs: int
    pip: Sources | None


@dataclass(frozen=True)
class Finished:
    """An image, what went into it, and the modules that can be imported in it."""

    image: oci.Image
    locked: Locked
    modules: list[str]


def resolve(planned: Plan, shop: Workshop) -> Locked:
    """Fix every file that goes in, as of the plan's days, fetching what has no hash before it is there."""
    assert shop.pip is not None, "a plan cannot be resolved without sources"
    with shop.progress.step("resolving"):
        python = lock.make(planned, shop.pip, shop.store, shop.environ)
    with shop.progress.step("fetching the examples"):
        taken = examples.obtain(shop.store, planned.examples, shop.pip.certificate, shop.progress.advance)
    with shop.progress.step("choosing Debian's packages"):
        packages = debs.resolve(shop.store, planned.base, shop.today, shop.environ)
    archive = Archive(examples.NAME, taken[0]) if taken else None
    return Locked(plan=planned, lock=python, debian=packages, examples=archive)


def gather(locked: Locked, shop: Workshop) -> Locked:
    """Bring every file of a lock into the store, and name what is missing and cannot be had."""
    if lost := missing(locked, shop.store):
        if shop.pip is None:
            raise origin.gone(lost)
        python = lock.locate(locked.lock, locked.plan, shop.pip, shop.store, shop.environ)
        locked = replace(locked, lock=python)
        if any(name.endswith(".deb") for name in lost):
            with shop.progress.step("fetching Debian's packages"):
                debs.resolve(shop.store, locked.plan.base, shop.today, shop.environ)
        located = {artifact.filename for artifact in locked.lock.artifacts}
        if never := [name for name in missing(locked, shop.store) if name not in located]:
            raise origin.gone(never)
    return locked


def fetched(locked: Locked, shop: Workshop) -> Locked:
    """Bring every file of a lock into the store, wheels included."""
    locked = gather(locked, shop)
    certificate = shop.pip.certificate if shop.pip else None
    assemble.collect(locked.lock, locked.plan, shop.store, certificate, shop.progress, shop.jobs)
    return locked


def missing(locked: Locked, store: Store) -> list[str]:
    """List the file names of a lock that the store does not have."""
    return [name for digest, name in files(locked) if store.blob(digest, name) is None]


def files(locked: Locked) -> list[tuple[str, str]]:
    """List every file of a lock as (sha256, file name)."""
    wheels = [(a.sha256, a.filename) for a in locked.lock.artifacts]
    packages = [(deb.sha256, deb.filename) for deb in locked.debs]
    archive = [(locked.examples.sha256, locked.examples.filename)] if locked.examples else []
    return [*wheels, *packages, *archive]


def image(locked: Locked, shop: Workshop, compression: str) -> Finished:
    """Write the layers that the store does not have, and the image above them."""
    certificate = shop.pip.certificate if shop.pip else None
    found = assemble.collect(locked.lock, locked.plan, shop.store, certificate, shop.progress, shop.jobs)
    with shop.progress.step("Debian base"):
        debian, reused = base.make(shop.store, locked.plan.base, locked.debian, shop.environ)
    below = oci.Part("debian base", debian.written, reused)
    taken = _archive(locked, shop.store)
    listed = bill.write(locked, found, debian, shop.store)
    parts = (below, *assemble.layers(locked, found, debian, taken, listed, shop.store, shop.progress, shop.jobs))
    settings = ours.settings(labels.make(locked.plan, locked.lock, debian))
    config = oci.config(parts, settings, f"{locked.plan.family_as_of}T00:00:00Z")
    manifest = ship.registry_manifest(config, parts, shop.store, "zstd" if compression == "none" else compression)
    made = oci.Image(locked.plan.tag, config, manifest, parts)
    return Finished(made, locked, check.modules(wheel.path for wheel in found))


def _archive(locked: Locked, store: Store) -> tuple[str, Path] | None:
    if locked.examples is None:
        return None
    path = store.blob(locked.examples.sha256, locked.examples.filename)
    return (locked.examples.sha256, path) if path else None
