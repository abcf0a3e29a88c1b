"""The whole way of an image: plan -> locked files -> layers -> image, each step by the module that knows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from images.base import apt
from images.base.base import Floor
from images.host.context import Workshop
from images.host.store import Store
from images.inspection import bill, import_check, sonames
from images.layers import assemble, entrypoint_layer, examples, labels, on_base
from images.lock import files as origin
from images.lock import resolve as lock
from images.lock.lockfile import Archive, Locked
from images.oci import export
from images.oci import image as oci
from images.plan.planner import Plan

BLOB = "blob"  # what the parts of a base are called in the store: they have digests and no names


@dataclass(frozen=True)
class Finished:
    """An image, what it stands on, what went into it, and the modules that can be imported in it."""

    image: oci.Image
    floor: Floor
    locked: Locked
    modules: list[str]


def resolve(planned: Plan, shop: Workshop) -> Locked:
    """Fix every file that goes in, as of the plan's days, fetching what has no hash before it is there."""
    assert shop.pip is not None, "a plan cannot be resolved without sources"
    image = on_base.bring(planned, shop)
    packages = _debs(planned, shop) if image is None else on_base.debs_for(image, _debs(planned, shop), shop)
    with shop.progress.step("resolving"):
        python = lock.make(planned, shop.pip, shop.store, shop.environ)
    with shop.progress.step("fetching the examples"):
        taken = examples.obtain(shop.store, planned.examples, shop.pip.certificate, shop.progress.advance)
    archive = Archive(examples.NAME, taken[0]) if taken else None
    base = on_base.standing(image, python) if image else None
    return Locked(plan=planned, lock=python, debian=packages, examples=archive, base=base)


def _debs(planned: Plan, shop: Workshop) -> apt.Choice:
    with shop.progress.step("choosing Debian's packages"):
        return apt.resolve(shop.store, planned.debian, shop.today, shop.environ)


def gather(locked: Locked, shop: Workshop) -> Locked:
    """Bring every file of a lock into the store, and name what is missing and cannot be had."""
    on_base.locked_base(locked, shop)
    if lost := missing(locked, shop.store):
        if shop.pip is None:
            raise origin.gone(lost)
        wanted = replace(locked.lock, artifacts=locked.added)
        found = lock.locate(wanted, locked.plan, shop.pip, shop.store, shop.environ)
        places = {artifact.filename: artifact for artifact in found.artifacts}
        artifacts = tuple(places.get(artifact.filename, artifact) for artifact in locked.lock.artifacts)
        locked = replace(locked, lock=replace(locked.lock, artifacts=artifacts))
        if any(name.endswith(".deb") for name in lost):
            with shop.progress.step("fetching Debian's packages"):
                apt.resolve(shop.store, locked.plan.debian, shop.today, shop.environ)
        located = {artifact.filename for artifact in locked.added}
        if never := [name for name in missing(locked, shop.store) if name not in located]:
            raise origin.gone(never)
    return locked


def fetched(locked: Locked, shop: Workshop) -> Locked:
    """Bring every file of a lock into the store, wheels included."""
    locked = gather(locked, shop)
    certificate = shop.pip.certificate if shop.pip else None
    assemble.collect(locked.added, locked.plan, shop.store, certificate, shop.progress, shop.jobs)
    return locked


def missing(locked: Locked, store: Store) -> list[str]:
    """List the file names of a lock that the store does not have."""
    every = [(digest, name, f"sha256:{digest}" if name == BLOB else name) for digest, name in files(locked)]
    return [called for digest, name, called in every if store.blob(digest, name) is None]


def files(locked: Locked) -> list[tuple[str, str]]:
    """List every file of a lock as (sha256, file name)."""
    wheels = [(a.sha256, a.filename) for a in locked.added]
    packages = [(deb.sha256, deb.filename) for deb in locked.debs]
    archive = [(locked.examples.sha256, locked.examples.filename)] if locked.examples else []
    below = locked.base.manifest if locked.base else None
    image = [(part.sha256, BLOB) for part in (below.config, *below.layers)] if below else []
    return [*wheels, *packages, *archive, *image]


def image(locked: Locked, shop: Workshop, compression: str) -> Finished:
    """Write the layers that the store does not have, and the image above them."""
    certificate = shop.pip.certificate if shop.pip else None
    ready = on_base.ready(locked, shop)
    found = assemble.collect(locked.added, locked.plan, shop.store, certificate, shop.progress, shop.jobs)
    taken = _archive(locked, shop.store)
    listed = bill.write(locked, found, ready.origin, shop.store)
    floor = on_base.with_bindings(ready, locked, found)
    sonames.refuse(found, floor.libraries, ready.hidden, shop.store, trimmed=locked.plan.trim)
    above = assemble.layers(locked, found, floor, ready.extras, taken, listed, shop.store, shop.progress, shop.jobs)
    parts = (*floor.layers, *above)
    settings = entrypoint_layer.settings(labels.make(locked.plan, locked.lock, floor), floor.environment)
    config = oci.config(parts, settings, f"{locked.plan.family_as_of}T00:00:00Z", floor.history)
    manifest = export.registry_manifest(config, parts, shop.store, "zstd" if compression == "none" else compression)
    made = oci.Image(locked.plan.tag, config, manifest, parts)
    return Finished(made, floor, locked, import_check.modules(wheel.path for wheel in found))


def _archive(locked: Locked, store: Store) -> tuple[str, Path] | None:
    if locked.examples is None:
        return None
    path = store.blob(locked.examples.sha256, locked.examples.filename)
    return (locked.examples.sha256, path) if path else None
