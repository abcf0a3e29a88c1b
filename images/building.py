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
from images.deliver import engine as engines
from images.deliver import output, referrers, skopeo, transfer
from images.deliver.engine import Engine
from images.host.background import background
from images.host.context import Context, World
from images.host.errors import Fault, UserFault, WorldFault
from images.lock import bundle, lockfile
from images.oci import reference
from images.oci.image import Image, published_digest
from images.options import read_names, read_requests
from images.pipeline import Finished, Locked


def build(options: argparse.Namespace, world: World, out: Console) -> None:
    """Build what was asked for, bring it to where it was asked for, and say so."""
    start = world.clock()
    targets = [reference.push_target(text) for text in options.push]
    if targets:
        skopeo.require_skopeo(world.environ, f"--push {targets[0]}")
    place = output.parse_target(options.output) if options.output else None
    context = dataclasses.replace(inputs.make_context(options, world), compiles=True)
    asked = read_requests(options)
    if len(asked) > 1 and place and not place.is_layout:
        raise UserFault("an archive is for one platform", options.output, f"--output {options.output}/")
    engine = engines.choose_engine(options.load, world.environ, context.progress.say, elsewhere=bool(place or targets))
    if len(asked) > 1 and engine and context.native is None:
        fact = "of several images an engine gets that of this machine, and none is for it"
        raise UserFault(fact, engine.name, "--no-load")
    with background() as tasks:
        locked = inputs.make_locks(options, asked, context, tasks)
        tags = tuple(read_names(options)) or (locked[0].lock.tag,)
        made = [_make(each, tags, options.compression, context, said=len(locked) > 1) for each in locked]
        if place:
            _save(made, place, options.compression, context)
        _load(made, engine, options.load, context)
        pushed = tuple(_push(made, target, options.compression, context) for target in targets)
    outcome = report.Outcome(
        tuple(each.image for each in made),
        options.output,
        engine.name if engine else None,
        pushed,
        world.clock() - start,
    )
    if options.json:
        print(json.dumps(report.outcome_fields(outcome), indent=1))
    report.show_outcome(outcome, out)


def _make(locked: Locked, tags: tuple[str, ...], compression: str, context: Context, *, said: bool) -> Finished:
    if said:
        context.progress.say(f"for {locked.lock.platform}:")
    return pipeline.build_image(locked, pipeline.fetch_files(locked.lock, context), tags, context, compression)


def _save(made: Sequence[Finished], place: output.Target, compression: str, context: Context) -> None:
    """Write the images, and their locks beside them: what follows may fail."""
    output.save_images(place, [each.image for each in made], context.store, compression)
    for each in made:
        name = place.path.name if len(made) == 1 else f"{place.path.name}-{each.lock.platform.architecture}"
        bundle.write_lock(each.lock, lockfile.path_for(place.path.with_name(name)))


def _load(made: Sequence[Finished], engine: Engine | None, asked: bool | None, context: Context) -> None:
    """Load an image into an engine, of several that of this machine, and import every package of it once."""
    own = made if len(made) == 1 else [each for each in made if each.lock.platform == context.native]
    for each in own:
        if engine:
            with context.progress.step(f"loading into {engine.name}"):
                engine.load(each.image, context.store)
        _check_imports(each, engine, asked, context)


def _push(made: Sequence[Finished], target: reference.Remote, compression: str, context: Context) -> str:
    images = [each.image for each in made]
    with context.progress.step(f"pushing to {target}"):
        transfer.push(images, target, context.store, context.access, compression)
    name = f"{target}@{published_digest(images)}"
    context.progress.say(f"pushed {name}")  # what comes next may fail, and then there is no report
    with context.progress.step(f"attaching SBOM and provenance at {target}"):
        for each in made:
            _attach(each, target, context)
    return name


def _attach(made: Finished, target: reference.Remote, context: Context) -> None:
    """Attach the documents to an image that was pushed; a registry that takes none has the image all the same."""
    documents = attached.write_documents(made.lock, made.sbom, made.image.manifest)
    try:
        referrers.attach(documents, target, context.store, context.access)
    except Fault as fault:
        if fault.kind not in referrers.NOT_TAKEN:
            raise
        context.progress.say(f"note: {target} has no SBOM and provenance attached: {fault.fact}: {fault.value}")


def _check_imports(made: Finished, engine: Engine | None, load: bool | None, context: Context) -> None:
    """Import every package once in the engine that has the image."""
    if engine is None:
        if load is not False:
            context.progress.say("note: import check skipped: no engine has the image")
        return
    if made.image.platform != context.native and not _starts(made.image, engine):
        said = f"{engine.name} cannot start programs for {made.image.platform} here"
        context.progress.say(f"note: import check skipped: {said}; load the image where it can, or register qemu")
        return
    which = (
        "--package or --requirements with other versions"
        if made.lock.user_packages
        else "another --transformers or --base"
    )
    remedy = f"{which}; the image stays loaded, so that you can examine it"
    with context.progress.step("importing every package once"):
        run = partial(engine.run, made.image)
        import_check.check_imports(made.image, made.wanted, run, context.store, remedy)


def _starts(image: Image, engine: Engine) -> bool:
    try:
        return engine.run(image, ["true"]) is None
    except WorldFault:  # engines tell it in different ways, and some not at all
        return False
