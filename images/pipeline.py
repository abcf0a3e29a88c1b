"""The whole way of an image: plan -> locked files -> layers -> image, each step by the module that knows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from images.base import apt
from images.base.base import Floor
from images.host.context import Context
from images.host.store import Store
from images.inspection import import_check, sbom, sonames
from images.layers import assemble, entrypoint_layer, examples, labels, on_base
from images.lock import collect
from images.lock import resolve as lock
from images.lock.lockfile import Archive, Locked
from images.oci import export
from images.oci import image as oci
from images.oci.compression import of_registry
from images.plan.planner import Plan


@dataclass(frozen=True)
class Finished:
    """An image, what it stands on, what went into it, and the modules that can be imported in it."""

    image: oci.Image
    floor: Floor
    locked: Locked
    modules: list[str]


def resolve(planned: Plan, context: Context) -> Locked:
    """Fix every file that goes in, as of the plan's days, fetching what has no hash before it is there."""
    assert context.pip is not None, "a plan cannot be resolved without sources"
    image = on_base.bring(planned, context)
    packages = _debs(planned, context) if image is None else on_base.debs_for(image, _debs(planned, context), context)
    with context.progress.step("resolving"):
        python = lock.make(planned, context.pip, context.store, context.environ)
    archive = _examples(planned, context, context.pip.certificate)
    base = on_base.standing(image, python) if image else None
    return Locked(plan=planned, lock=python, debian=packages, examples=archive, base=base)


def _examples(planned: Plan, context: Context, certificate: str | None) -> Archive | None:
    if planned.examples is None:
        return None
    with context.progress.step("fetching the examples"):
        taken = examples.obtain(context.store, planned.examples, certificate, context.progress.advance)
    return Archive(examples.NAME, taken[0]) if taken else None


def _debs(planned: Plan, context: Context) -> apt.Choice:
    with context.progress.step("choosing Debian's packages"):
        return apt.resolve(context.store, planned.debian, context.today, context.environ)


def download(locked: Locked, context: Context) -> Locked:
    """Bring every file of a lock into the store; return the lock with the places of its files.

    Raises WorldFault that names what is missing and cannot be had.
    """
    on_base.locked_base(locked, context)
    return collect.everything(locked, context)


def image(locked: Locked, context: Context, compression: str) -> Finished:
    """Write the layers that the store does not have, and the image above them."""
    base = on_base.locked_base(locked, context)
    locked = collect.locate(locked, context)
    ready = on_base.ready(locked, base, context)
    found = collect.wheels(locked, context)
    taken = _archive(locked, context.store)
    listed = sbom.write(locked, found, ready.origin, context.store)
    floor = on_base.with_bindings(ready, locked, found)
    sonames.refuse(found, floor.libraries, ready.hidden, context.store, trimmed=locked.plan.trim)
    above = assemble.layers(locked, found, floor, ready.extras, taken, listed, context)
    parts = (*floor.layers, *above)
    settings = entrypoint_layer.settings(labels.make(locked.plan, locked.lock, floor), floor.environment)
    config = oci.config(parts, settings, f"{locked.plan.family_as_of}T00:00:00Z", floor.history)
    manifest = export.registry_manifest(config, parts, context.store, of_registry(compression))
    made = oci.Image((locked.plan.tag,), config, manifest, parts)
    return Finished(made, floor, locked, import_check.modules(wheel.path for wheel in found))


def _archive(locked: Locked, store: Store) -> tuple[str, Path] | None:
    if locked.examples is None:
        return None
    path = store.blob(locked.examples.sha256, locked.examples.filename)
    return (locked.examples.sha256, path) if path else None
