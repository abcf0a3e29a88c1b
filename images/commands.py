"""The commands that work with files: their inputs, build for one platform or several, lock, bundle, verify, sbom."""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from images import pip_config, pipeline, report
from images.check import import_check, provenance, verify
from images.context import Access, Context, Settings, World
from images.deliver import engine as engines
from images.deliver import registry, skopeo, transfer
from images.deliver.engine import Engine
from images.host.background import Progress, Start, background
from images.host.errors import Fault, UserFault, WorldFault
from images.host.files import require_writable
from images.layers import entrypoint_layer
from images.lock import bundle, lockfile
from images.lock.lock import Lock
from images.oci import reference
from images.oci.image import Image, published_digest
from images.options import read_names, read_request, read_requests
from images.pipeline import Finished, Locked
from images.plan import catalog, planner
from images.plan.plan import Plan, Request
from images.platforms import PLATFORMS
from images.store.store import Store, default_root


def make_context(options: argparse.Namespace, world: World) -> Context:
    """Return what every step of a command works with.

    Raises a Fault where pip's configuration or its certificates cannot be used.
    """
    pip = None if options.offline is not None else pip_config.read_sources(world.environ)
    settings = Settings(**{one.name: getattr(options, one.name) for one in dataclasses.fields(Settings)})
    progress = Progress(Console(stderr=True, emoji=False))
    certificate = pip.certificate if pip else None
    access = Access(environ=world.environ, certificate=certificate, say=progress.say)
    return Context(
        store=Store(default_root(world.environ)), environ=world.environ, today=world.today, progress=progress,
        pip=pip, access=access, settings=settings,
        base=options.base if lockfile.is_base_on_disk(options.base) else None,
        examples=None if options.examples == "none" else options.examples,
        native=next((one for one in PLATFORMS if one.runs_on(platform.system(), platform.machine())), None),
    )  # fmt: skip


def make_locks(
    options: argparse.Namespace, requests: Sequence[Request], context: Context, tasks: Start | None = None
) -> list[Locked]:
    """Return the lock that was named, or a new one for each request: those of one index.

    Raises UserFault where a lock is named and there are several requests, or they would get different releases.
    """
    if len(requests) > 1 and (options.lock or options.offline is not None):
        typed = f"--lock {options.lock}" if options.lock else "--offline"
        raise UserFault("a lock is for one platform", typed, f"{typed} with one --platform")
    if named := read_given_lock(options, requests[0], context):
        return [Locked(named)]
    if context.pip is None:
        raise UserFault("nothing can be resolved offline", "--offline", "--offline BUNDLE, or --offline --lock FILE")
    plans = [planner.make_plan(request, catalog.load(), context.today) for request in requests]
    planner.require_same_releases(plans)
    return [_new_lock(plan, context, tasks, of_several=len(plans) > 1) for plan in plans]


def _new_lock(planned: Plan, context: Context, tasks: Start | None, *, of_several: bool) -> Locked:
    """Resolve a plan; where it is one `of_several`, say which platform the notes and faults that follow are about."""
    for line in (*([f"for {planned.platform}:"] if of_several else ()), *(f"note: {note}" for note in planned.notes)):
        context.progress.say(line)
    return pipeline.resolve_plan(planned, context, tasks)


def read_given_lock(options: argparse.Namespace, request: Request, context: Context) -> Lock | None:
    """Return the lock of --lock, or that of the bundle after adding its files to the store; None without either.

    The user's files are added to the store as well, and have to be those of the lock.
    """
    if options.offline:
        if options.lock:
            raise UserFault("a bundle brings its own lock", f"--lock {options.lock}", f"--offline {options.offline}")
        with context.progress.step("taking the bundle"):
            text = bundle.take_bundle(options.offline, context.store)
        return take_lock(text, f"{options.offline}/{bundle.LOCK}", request, context)
    if options.lock is None:
        return None
    if not Path(options.lock).is_file():
        raise UserFault("there is no such lock", options.lock, "a file that build.py lock --output wrote")
    return take_lock(Path(options.lock).read_text(errors="replace"), options.lock, request, context)


def take_lock(text: str, where: str, request: Request, context: Context) -> Lock:
    """Add the user's files of the request to the store, then return the lock as lockfile.read_lock does."""
    lock = lockfile.read_lock(text, where, request)
    entrypoint_layer.keep_user_files(request.user_files, context.store)
    return lock


def build(options: argparse.Namespace, world: World, out: Console) -> None:
    """Build the image that the options describe, deliver it, and report."""
    start = world.clock()
    targets = [reference.push_target(text) for text in options.push]
    if targets:
        skopeo.require_skopeo(world.environ, f"--push {targets[0]}")
    place = transfer.parse_target(options.output) if options.output else None
    context = dataclasses.replace(make_context(options, world), compiles=True)
    requests = read_requests(options)
    if len(requests) > 1 and place and not place.is_layout:
        raise UserFault("an archive is for one platform", options.output, f"--output {options.output}/")
    engine = engines.choose_engine(options.load, world.environ, context.progress.say, elsewhere=bool(place or targets))
    if len(requests) > 1 and engine and context.native is None:
        fact = "of several images an engine gets that of this machine, and none is for it"
        raise UserFault(fact, engine.name, "--no-load")
    with background() as tasks:
        locked = make_locks(options, requests, context, tasks)
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
    documents = provenance.write_documents(finished.lock, finished.sbom, finished.image.manifest)
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


def _write_lock(options: argparse.Namespace, world: World, out: Console) -> None:
    place = Path(options.output).absolute() if options.output else None
    if place and place.is_dir():
        raise UserFault("that is a directory", options.output, "--output with the path of a file")
    if place:
        require_writable(place.parent)
    [locked] = make_locks(options, [read_request(options)], make_context(options, world))
    if place:
        bundle.write_lock(locked.lock, place)
    else:
        _print_whole(lockfile.format_lock(locked.lock, with_origin=True), lockfile.NAME)


def _bundle(options: argparse.Namespace, world: World, out: Console) -> None:
    bundle.require_free(options.output)  # said now, not after the downloads
    context = make_context(options, world)
    [locked] = make_locks(options, [read_request(options)], context)
    lock = locked.lock
    pipeline.fetch_files(lock, context)
    with context.progress.step("writing the bundle"):
        place = bundle.write_bundle(lock, context.store, options.output)
    if options.json:
        print(json.dumps({"bundle": str(place), "files": len(lock.files())}))
    report.show_lines([("bundle", f"{place}  ({len(lock.files())} files)")], out)


def _verify(options: argparse.Namespace, world: World, out: Console) -> None:
    context = dataclasses.replace(make_context(options, world), compiles=True)
    wanted = read_request(options)
    named = read_given_lock(options, wanted, context)
    with verify.open_image(options.image, options.platform, context.store, context.access) as opened_images:
        images = [_only(opened_images, str(named.platform))] if named else opened_images
        verdicts = [
            _verdict(verdict, named or _lock_inside(verdict, options.image, wanted, context), context)
            for verdict in images
        ]
    if options.json:
        print(json.dumps(report.verdict_fields(verdicts), indent=1))
    report.show_verdicts(verdicts, out)
    for verdict in verdicts:
        if difference := verdict.difference:
            value = f"{options.image} ({verdict.inside.where}, {verdict.inside.platform}): {difference.text}"
            raise WorldFault("the image is not what the lock says", value, verify.REMEDY)


def _verdict(inside: verify.Inside, lock: Lock, context: Context) -> report.Verdict:
    """Build an image again from its lock, and compare."""
    files = pipeline.fetch_files(lock, context)
    built = pipeline.build_image(Locked(lock), files, (inside.name,), context)
    paths = [context.store.place(layer.written.digest) for layer in built.image.layers]
    difference = verify.compare_images(inside, built.image, paths)
    there = provenance.Attached({}, ())
    if inside.remote and not difference:
        known = provenance.write_documents(built.lock, built.sbom, inside.manifest)
        there = provenance.compare_attached(known, inside.indexes, inside.remote, context.access)
    return report.Verdict(inside, built.image.digest, difference, there)


def _lock_inside(image: verify.Inside, shown: str, wanted: Request, context: Context) -> Lock:
    text = image.file(verify.LOCK).decode(errors="replace")
    return take_lock(text, f"the lock in {shown}", wanted, context)


def _only(images: Sequence[verify.Inside], platform: str | None = None) -> verify.Inside:
    """Return the only image of a name, or the one for `platform`; raise UserFault if several are left."""
    if len(images) > 1:
        value = f"{images[0].name} ({', '.join(image.platform for image in images)})"
        remedy = f"--platform {platform or images[0].platform}"
        raise UserFault("there is an image for each of several platforms", value, remedy)
    return images[0]


def _sbom(options: argparse.Namespace, world: World, out: Console) -> None:
    context = make_context(options, world)
    with verify.open_image(options.image, options.platform, context.store, context.access) as images:
        text = _only(images).file(verify.BILL).decode(errors="replace")
    _unproved(options, context)
    _print_whole(text, options.image)


def _provenance(options: argparse.Namespace, world: World, out: Console) -> None:
    context = make_context(options, world)
    with verify.open_image(options.image, options.platform, context.store, context.access) as images:
        image = _only(images)
        lock = _lock_inside(image, options.image, read_request(options), context)
    _unproved(options, context)
    _print_whole(
        provenance.write_statement(lock, image.digest), options.image
    )  # here an error of stdout is none of the store's


def _print_whole(document: str, source: str) -> None:
    """Print a document as it is: programs read it.

    Raises WorldFault where it has what a terminal takes for a command, or shows as something else.
    """
    if not document.replace("\n", "").isprintable():
        remedy = (
            "one that build.py made of packages that you trust; --output FILE, or --json where there is one, shows it"
        )
        raise WorldFault("a document to be printed has control characters", source, remedy)
    print(document, end="")


def _unproved(options: argparse.Namespace, context: Context) -> None:
    context.progress.say(f"note: as {options.image} itself has it; build.py verify {options.image} proves it")


HANDLERS: Mapping[str, Callable[[argparse.Namespace, World, Console], None]] = {
    "build": build, "lock": _write_lock, "bundle": _bundle, "verify": _verify, "sbom": _sbom,
    "provenance": _provenance,
}  # fmt: skip
