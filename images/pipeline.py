"""The whole way of an image: plan -> locked files -> layers -> image, each step by the module that knows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from images.base import apt
from images.base.base import Floor
from images.host.context import Context
from images.host.store import Store
from images.inspection import import_check, sbom, sonames
from images.layers import assemble, entrypoint_layer, examples, on_base
from images.lock import collect
from images.lock import resolve as resolving
from images.lock.lock import Archive, BaseImage, Debian, Lock
from images.oci import image as oci
from images.oci.compression import of_registry
from images.plan.planner import Plan


@dataclass(frozen=True)
class Finished:
    """An image, its base, the lock it was made from, and the modules that can be imported in it."""

    image: oci.Image
    floor: Floor
    lock: Lock
    modules: list[str]


def resolve(planned: Plan, context: Context) -> Lock:
    """Return the lock of a plan: every file that goes in, as of the plan's days.

    What has no hash before it is there is downloaded for it.
    """
    image = on_base.bring(planned, context)
    chosen = _debs(planned, context) if image is None else on_base.debs_for(image, _debs(planned, context), context)
    with context.progress.step("resolving"):
        found = resolving.packages(planned, context)
    base_image = on_base.standing(image, planned.python, found.artifacts) if image else None
    return Lock(
        torch=str(planned.torch.version), transformers=str(planned.transformers.version), python=planned.python,
        glibc=planned.base.glibc, backend=planned.backend, module=planned.torch.module,
        base=_name(planned, base_image), as_of=planned.as_of, family_as_of=planned.family_as_of, trim=planned.trim,
        bytecode=planned.bytecode, artifacts=found.artifacts, source_only=resolving.source_only(planned),
        index=planned.index, find_links=planned.find_links, undated=found.undated,
        debian=Debian(planned.debian.suite, planned.debian.packages, chosen.sources, chosen.debs),
        examples=_examples(planned, context), base_image=base_image,
    )  # fmt: skip


def _name(planned: Plan, image: BaseImage | None) -> str:
    """Return what to ask for again: a base from disk by its digest, since a lock holds no place."""
    if image is None or planned.base_name == "intel":
        return planned.base_name
    return image.reference or image.manifest.digest


def _examples(planned: Plan, context: Context) -> Archive | None:
    if planned.examples is None:
        return None
    with context.progress.step("fetching the examples"):
        taken = examples.obtain(context.store, planned.examples, context.certificate, context.progress.advance)
    return Archive(examples.NAME, taken[0]) if taken else None


def _debs(planned: Plan, context: Context) -> apt.Choice:
    with context.progress.step("choosing Debian's packages"):
        return apt.resolve(context.store, planned.debian, context.today, context.environ)


def download(lock: Lock, context: Context) -> None:
    """Bring every file of a lock into the store.

    Raises WorldFault that names what is missing and cannot be had.
    """
    on_base.locked_base(lock, context)
    collect.everything(lock, context)


def image(lock: Lock, tags: tuple[str, ...], context: Context, compression: str) -> Finished:
    """Write the layers that the store does not have, and the image; `tags` are its names, the first is shown."""
    base = on_base.locked_base(lock, context)
    found = collect.everything(lock, context)
    ready = on_base.ready(lock, base, context)
    taken = _archive(lock, context.store)
    listed = sbom.write(lock, found, ready.origin, context.store)
    floor = on_base.with_bindings(ready, lock, found)
    sonames.refuse(found, floor.libraries, ready.hidden, context.store, trimmed=lock.trim)
    above = assemble.layers(lock, found, floor, ready.extras, taken, listed, context)
    parts = (*floor.layers, *above)
    settings = entrypoint_layer.settings(entrypoint_layer.labels(lock, floor), floor.environment)
    config = oci.config(parts, settings, f"{lock.family_as_of}T00:00:00Z", floor.history)
    manifest = oci.registry_manifest(config, parts, context.store, of_registry(compression))
    made = oci.Image(tags, config, manifest, parts)
    return Finished(made, floor, lock, import_check.modules(wheel.path for wheel in found))


def _archive(lock: Lock, store: Store) -> tuple[str, Path] | None:
    if lock.examples is None:
        return None
    path = store.blob(lock.examples.sha256, lock.examples.filename)
    return (lock.examples.sha256, path) if path else None
