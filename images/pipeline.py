"""The whole way of an image: plan -> locked files -> layers -> image, each step by the module that knows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from images.base import additions, debian, pulled
from images.base.base import Base, BaseImage
from images.base.pulled import PulledImage, pull_image, pull_locked
from images.check import import_check, sbom
from images.compiling import compiler
from images.context import Context
from images.debian import packages
from images.debian.deb import Deb, Debian
from images.host.background import Start, background
from images.host.errors import Damaged, UserFault
from images.layers import assemble, configuration, entrypoint_layer, examples, on_base, oneccl, trim
from images.layers.trim import Patterns
from images.lock import collect
from images.lock import resolve as resolving
from images.lock.lock import EXAMPLES, Artifact, Examples, Lock
from images.lock.resolve import Making
from images.oci import image as oci
from images.oci import reference
from images.oci.image import Image
from images.oci.layer import Layer
from images.plan.plan import Pins, Plan
from images.plan.planner import ARCHIVE
from images.platforms import Platform
from images.wheels.archive import Wheel


@dataclass(frozen=True)
class Finished:
    """An image, its base, the lock it was made from, its SBOM, and what its Python must find in it.

    `wheels` are those that are in it, without the files that `left_out` matches.
    """

    image: Image
    base: Base
    lock: Lock
    sbom: str
    wanted: tuple[str, ...]
    wheels: tuple[Wheel, ...] = ()
    left_out: Patterns = field(default_factory=dict)


@dataclass(frozen=True)
class LockFiles:
    """Every file of a lock in the store: wheels in order, the archive of the examples, the parts of a pulled base."""

    wheels: tuple[Wheel, ...]
    examples: tuple[str, Path] | None
    base: PulledImage | None


@dataclass(frozen=True)
class Locked:
    """A lock; `making` if its Debian base is being made already."""

    lock: Lock
    making: Making = None


def resolve_plan(planned: Plan, context: Context, start: Start | None = None) -> Locked:
    """Return the lock of a plan: every file that goes in, as of the plan's days.

    What has no hash before it is there is downloaded for it. Debian's part is chosen and made in the background, by
    `start`.
    """
    compiler.require_compiler(planned, context)
    entrypoint_layer.keep_user_files(planned.user_files, context.store)
    base = _planned_base(planned, context) if planned.is_on_pulled else None
    if base is None:
        choose, making = resolving.choose_debs(planned, context, start)
    else:
        added = Debian(planned.suite, planned.packages, "", _choose_additions(base, planned, context))
        choose, making = lambda: added, None
    with context.progress.step("choosing Python packages"):
        resolved, user_packages = resolving.resolve_with_users(planned, context)
    import_check.require_excused(planned.no_import or (), resolved.artifacts)
    for note in resolved.notes:
        context.progress.say(f"note: {note}")
    debian_part = choose()
    twin = resolving.choose_twin(planned, debian_part, context) if base is None else None
    base_image = _base_image(base, resolved.artifacts) if base else None
    pins = {field.name: getattr(planned, field.name) for field in fields(Pins)}
    lock = Lock(
        **{**pins, "base": _locked_name(planned, base_image)}, artifacts=resolved.artifacts,
        undated=resolved.undated, indexes=resolved.indexes, debian=debian_part,
        examples=_planned_examples(planned, context),
        base_image=base_image, twin=twin, user_packages=user_packages, user_files=tuple(planned.user_files) or None,
    )  # fmt: skip
    return Locked(lock, making)


def _planned_base(planned: Plan, context: Context) -> Base:
    """Pull the base of a plan, and refuse one that cannot carry it, before anything else is downloaded."""
    assert planned.base_reference, "a base that is made here is not pulled"
    named = reference.parse_reference(planned.base_reference)
    with context.progress.step("fetching the base"):
        image = pull_image(named, planned.platform, context.store, context.access, context.progress.advance)
    base = pulled.read_base(image, planned.python, planned.glibc, context.store)
    if base.facts.sshd is None:
        context.progress.say("note: the base has no sshd: mpirun cannot start ranks on other hosts, torchrun can")
    return base


def _choose_additions(base: Base, planned: Plan, context: Context) -> tuple[Deb, ...]:
    """Choose the Debian packages of what a base lacks, and make sure that it runs there."""
    names, store = additions.list_missing_pieces(base.facts), context.store
    if not names:
        return ()
    with context.progress.step("choosing Debian's packages"):
        debs = packages.resolve_single(planned.suite, additions.packages_of(names), planned.platform, context)
    additions.read_pieces(store, debs, names, base.facts)
    return debs


def _base_image(base: Base, artifacts: Sequence[Artifact]) -> BaseImage:
    """Return what a lock says of a pulled base, and which planned packages it has at the planned version.

    Raises UserFault when a package must be replaced that has no list of its files.
    """
    assert base.manifest, "a base that is made here has no manifest"
    planned = [(artifact.name, artifact.version) for artifact in artifacts]
    decision = on_base.compare_packages(base.facts, base.site.python, planned)
    return BaseImage(base.manifest, decision.kept, base.name)


def _locked_name(planned: Plan, image: BaseImage | None) -> str:
    """Return what to ask for again: a base from disk by its digest, since a lock holds no place."""
    if image is None or planned.base == "intel":
        return planned.base
    return image.reference or image.manifest.digest


def _planned_examples(planned: Plan, context: Context) -> Examples | None:
    if planned.examples is None:
        return None
    with context.progress.step("fetching the examples"):
        taken = examples.fetch_examples(context.store, planned.examples, context.sources, context.progress.advance)
    return Examples(EXAMPLES, taken[0])


def fetch_files(lock: Lock, context: Context) -> LockFiles:
    """Bring every file of a lock into the store: the only pass over them, after which each is there and whole.

    Raises WorldFault that names what is missing and cannot be had.
    """
    if lock.is_on_pulled:
        compiler.choose_compiler(lock, context)  # refused now, not after the downloads
    base = _locked_base(lock.base_image, lock.platform, context) if lock.base_image else None
    taken = _locked_examples(lock, context)
    return LockFiles(tuple(collect.collect_packages(lock, context)), taken, base)


def build_image(locked: Locked, files: LockFiles, tags: tuple[str, ...], context: Context) -> Finished:
    """Write the layers that the store does not have, and the image; `tags` are its names, the first is shown."""
    lock, store = locked.lock, context.store
    choice = compiler.choose_compiler(lock, context)
    left_out = trim.choose_left_out(files.wheels, lock, context)
    if choice and not choice.engine:
        _compile_beside(locked, files, left_out, context)
    base = oneccl.add_links(_make_base(locked, files, context), lock, files.wheels)
    extras = on_base.list_extras(base, lock, on_base.choose_hidden(base, lock), context)
    python = compiler.prepare_compiler(choice, lock, base, context) if choice else None
    ingredients = assemble.Ingredients(lock, files.wheels, left_out, base, files.examples, python)
    controls = {deb: packages.read_control(store, deb) for deb in lock.debian.debs} if base.is_pulled else {}
    with background() as start:
        bill = start(lambda: sbom.write_sbom(lock, files.wheels, base, store, controls))
        above = assemble.write_layers(ingredients, extras, bill, context)
    finished = _write_image(ingredients, above, tags, context)
    wanted = import_check.wanted_of(store, files.wheels, lock.no_import or ())
    return Finished(finished, base, lock, bill.result(), wanted, files.wheels, left_out)


def _compile_beside(locked: Locked, files: LockFiles, left_out: Patterns, context: Context) -> None:
    """Compile wheels with Debian's Python as long as its base is being made."""
    if locked.making and not locked.making.done():
        python = compiler.unpack_debian(locked.lock, context)
        omitted = trim.uncompiled_patterns(left_out, locked.lock)
        assemble.compile_beside(locked.making, python, files.wheels, omitted, context)


def _write_image(
    ingredients: assemble.Ingredients, above: Sequence[Layer], tags: tuple[str, ...], context: Context
) -> Image:
    lock, base = ingredients.lock, ingredients.base
    layers, store, compression = (*base.layers, *above), context.store, context.settings.compression
    settings, day = configuration.container_settings(lock, base), f"{lock.family_as_of}T00:00:00Z"
    config = oci.write_config(layers, lock.platform, settings, day, base.history)
    annotations = configuration.manifest_annotations(lock)
    manifest = oci.registry_manifest(config, layers, store, compression, annotations)
    return Image(tags, config, manifest, layers, annotations)


def _make_base(locked: Locked, files: LockFiles, context: Context) -> Base:
    """Return the base, of somebody else's image or of Debian's packages."""
    if files.base:
        return pulled.read_base(files.base, locked.lock.python, locked.lock.glibc, context.store)
    return _debian_base(locked, context)


def _debian_base(locked: Locked, context: Context) -> Base:
    lock = locked.lock
    with context.progress.step("making the Debian base"):
        try:
            base = locked.making.result() if locked.making else None
        except Damaged:  # what it is made of is whole again
            base = None
        if base is None or not base.is_in(context.store):
            base = debian.make_base(context.store, lock.debian, lock.platform, lock.python, context.environ, lock)
    return base


def _locked_base(known: BaseImage, platform: Platform, context: Context) -> PulledImage:
    """Fetch the base of a lock, from the store where it is there.

    Raises WorldFault when a part of it cannot be had, UserFault when --base names another image.
    """
    store, advance = context.store, context.progress.advance
    with context.progress.step("fetching the base"):
        if context.base is None:
            access = context.access if context.pip else None
            parts = pull_locked(known, platform, store, access, advance)
        else:
            parts = pull_image(reference.parse_reference(context.base), platform, store, context.access, advance)
    if parts.manifest.digest != known.manifest.digest:
        value = f"{context.base} ({parts.manifest.digest}, not {known.manifest.digest})"
        raise UserFault("that is not the base of the lock", value, "the base that the lock was made with")
    return replace(parts, reference=known.reference)


def _locked_examples(lock: Lock, context: Context) -> tuple[str, Path] | None:
    """Return sha256 and place of the examples of a lock; what the store lacks comes from where the user says, or from
    the release's own address.

    Raises UserFault when something else is there.
    """
    if lock.examples is None:
        return None
    digest, name = lock.examples.sha256, lock.examples.filename
    if path := context.store.verified(digest, name):
        return digest, path
    place = context.examples or ARCHIVE.format(version=lock.transformers)
    if context.pip is None and context.examples is None:
        return None  # collect.packages names all missing files at once
    with context.progress.step("fetching the examples"):
        taken = examples.fetch_examples(context.store, place, context.sources, context.progress.advance)
    if taken[0] != digest:
        remedy = "--examples with the archive or directory that the lock was made with, or --offline BUNDLE"
        raise UserFault("those are not the examples of the lock", f"{place}: sha256 {taken[0]}, not {digest}", remedy)
    return taken
