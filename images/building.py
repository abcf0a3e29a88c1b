"""The command that builds: an image, or one for each of several platforms and their index."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from functools import partial

from rich.console import Console

from images import inputs, pipeline, report
from images.check import attached, import_check
from images.context import Context, World
from images.deliver import engine as engines
from images.deliver import registry, skopeo, transfer
from images.deliver.engine import Engine
from images.host.background import background
from images.host.errors import Fault, UserFault, WorldFault
from images.lock import bundle, lockfile
from images.oci import reference
from images.oci.image import Image, published_digest
from images.options import read_names, read_requests
from images.pipeline import Finished, Locked


def build(options: argparse.Namespace, world: World, out: Console) -> None:
    """Build the image that the options describe, deliver it, and report."""
    start = world.clock()
    targets = [reference.push_target(text) for text in options.push]
    if targets:
        skopeo.require_skopeo(world.environ, f"--push {targets[0]}")
    place = transfer.parse_target(options.output) if options.output else None
    context = dataclasses.replace(inputs.make_context(options, world), compiles=True)
    requests = read_requests(options)
    if len(requests) > 1 and place and not place.is_layout:
        raise UserFault("an archive is for one platform", options.output, f"--output {options.output}/")
    engine = engines.choose_engine(options.load, world.environ, context.progress.say, elsewhere=bool(place or targets))
    if len(requests) > 1 and engine and context.native is None:
        fact = "of several images an engine gets that of this machine, and none is for it"
        raise UserFault(fact, engine.name, "--no-load")
    with background() as tasks:
        locked = inputs.make_locks(options, requests, context, tasks)
        tags = tuple(read_names(options)) or (locked[0].lock.tag,)
        finished = [_make(one, tags, context, named=len(locked) > 1) for one in locked]
        if place:
            _save(finished, place, context)
        _load(finished, engine, options.load, context)
        pushed = tuple(_push(finished, target, context) for target in targets)
    outcome = report.Outcome(
        tuple(one.image for one in finished),
        options.output,
        engine.name if engine else None,
        pushed,
        world.clock() - start,
    )
    if options.json:
        print(json.dumps(report.outcome_fields(outcome), indent=1))
    report.show_outcome(outcome, out)


def _make(locked: Locked, tags: tuple[str, ...], context: Context, *, named: bool) -> Finished:
    if named:
        context.progress.say(f"for {locked.lock.platform}:")
    return pipeline.build_image(locked, pipeline.fetch_files(locked.lock, context), tags, context)


def _save(finished: Sequence[Finished], place: transfer.Target, context: Context) -> None:
    """Write the images, and their locks beside them: what follows may fail."""
    transfer.save_images(place, [one.image for one in finished], context.store, context.settings.compression)
    for one in finished:
        name = place.path.name if len(finished) == 1 else f"{place.path.name}-{one.lock.platform.architecture}"
        bundle.write_lock(one.lock, lockfile.path_for(place.path.with_name(name)))


def _load(finished: Sequence[Finished], engine: Engine | None, wanted: bool | None, context: Context) -> None:
    """Load an image into an engine, of several that of this machine, and import every package of it once."""
    loadable = finished if len(finished) == 1 else [one for one in finished if one.lock.platform == context.native]
    for one in loadable:
        if engine:
            with context.progress.step(f"loading into {engine.name}"):
                engine.load(one.image, context.store)
        _check_imports(one, engine, wanted, context)


def _push(finished: Sequence[Finished], target: reference.Remote, context: Context) -> str:
    images = [one.image for one in finished]
    with context.progress.step(f"pushing to {target}"):
        transfer.push(images, target, context.store, context.access, context.settings.compression)
    name = f"{target}@{published_digest(images)}"
    context.progress.say(f"pushed {name}")  # what comes next may fail, and then there is no report
    with context.progress.step(f"attaching SBOM and provenance at {target}"):
        for one in finished:
            _attach(one, target, context)
    return name


def _attach(finished: Finished, target: reference.Remote, context: Context) -> None:
    """Attach the documents to an image that was pushed; a registry that takes none has the image all the same."""
    documents = attached.write_documents(finished.lock, finished.sbom, finished.image.manifest)
    try:
        registry.attach(documents, target, context.store, context.access)
    except Fault as fault:
        if fault.kind not in registry.NOT_TAKEN:
            raise
        context.progress.say(f"note: {target} has no SBOM and provenance attached: {fault.fact}: {fault.value}")


def _check_imports(finished: Finished, engine: Engine | None, load: bool | None, context: Context) -> None:
    """Import every package once in the engine that has the image."""
    if engine is None:
        if load is not False:
            context.progress.say("note: import check skipped: no engine has the image")
        return
    if finished.image.platform != context.native and not _starts(finished.image, engine):
        reason = f"{engine.name} cannot start programs for {finished.image.platform} here"
        context.progress.say(f"note: import check skipped: {reason}; load the image where it can, or register qemu")
        return
    with context.progress.step("importing every package once"):
        run = partial(engine.run, finished.image)
        parts = (finished.lock, finished.wheels, finished.left_out, context.store)
        remedy = partial(import_check.choose_remedy, *parts)
        import_check.check_imports(finished.image, finished.wanted, run, context.store, remedy)


def _starts(image: Image, engine: Engine) -> bool:
    try:
        return engine.run(image, ["true"]) is None
    except WorldFault:  # engines tell it in different ways, and some not at all
        return False
