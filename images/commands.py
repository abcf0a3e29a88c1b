"""The commands that work with files: lock, bundle, verify, sbom, provenance and build."""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from rich.console import Console

from images import pipeline, report
from images.check import attached, import_check, opened, provenance, sbom, verify
from images.deliver import engine as engines
from images.deliver import referrers, skopeo, transfer
from images.deliver.engine import Engine
from images.host import download, pip_config
from images.host.context import Access, Context, Start, World, background, default_root
from images.host.errors import Damaged, Fault, UserFault, WorldFault
from images.host.progress import Progress
from images.host.store import Store
from images.lock import bundle, lockfile
from images.model import Image, Lock, Request
from images.oci import attachment, output, reference
from images.options import names, request
from images.pipeline import Locked
from images.plan import catalog, planner
from images.platforms import PLATFORMS


def _lock(options: argparse.Namespace, world: World, out: Console) -> None:
    place = Path(options.output).absolute() if options.output else None
    if place and (not place.parent.is_dir() or place.is_dir()):
        fact = "that is a directory" if place.is_dir() else "no such directory"
        remedy = "--output with the path of a file in a directory that exists"
        raise UserFault(fact, options.output, remedy)
    if place:
        output.require_writable(place.parent)
    lock = _new_lock(request(options), _context(options, world)).lock
    if place:
        bundle.write_lock(lock, place)
    else:
        print(lockfile.text(lock, with_origin=True), end="")


def _bundle(options: argparse.Namespace, world: World, out: Console) -> None:
    bundle.require_free(options.output)  # said now, not after the downloads
    context = _context(options, world)
    locked = _locked(options, context)
    lock = locked.lock
    pipeline.fetch(lock, context)
    with context.progress.step("writing the bundle"):
        place = bundle.write(lock, context.store, options.output)
    if options.json:
        print(json.dumps({"bundle": str(place), "files": len(lock.files())}))
    out.print(f"bundle         {place}  ({len(lock.files())} files)", highlight=False, markup=False, soft_wrap=True)


def _verify(options: argparse.Namespace, world: World, out: Console) -> None:
    context = dataclasses.replace(_context(options, world), compiles=True)
    asked = request(options)
    named = _given_lock(options, asked, context)
    with opened.opened(options.image, options.platform, context.store, context.access) as inside:
        lock = named or _lock_inside(inside, options.image, asked)
        files = pipeline.fetch(lock, context)
        built = pipeline.image(Locked(lock), files, (options.image,), context, "zstd")
        made = built.image
        own = [context.store.place(layer.written.digest) for layer in made.layers]
        difference = verify.compare(inside, made, own)
        there = _attached(inside, built, context) if inside.remote and not difference else {}
    if options.json:
        print(json.dumps(report.verified(inside, made.digest, difference, there), indent=1))
    name = f"{options.image} ({inside.where})"
    if difference:
        raise WorldFault("the image is not what the lock says", f"{name}: {difference.text}", difference.remedy)
    said = f"verified       {name}: {len(made.layers)} layers, id {inside.id}, manifest {inside.digest}"
    out.print(said, highlight=False, markup=False, soft_wrap=True)
    for document, digest in there.items():
        state = f"{digest}, equal to the one of this build" if digest else "not attached"
        out.print(f"{document:<14} {state}", highlight=False, markup=False, soft_wrap=True)


def _attached(inside: opened.Inside, built: pipeline.Finished, context: Context) -> Mapping[str, str | None]:
    """Return which documents the registry has of an image that is what its lock says."""
    assert inside.remote, "an image that is not in a registry has nothing attached to it"
    known = attached.documents(built.lock, built.sbom, inside.digest)
    place = transfer.origin(inside.remote)
    return attached.compare(known, inside.manifest, place, context.store, context.access)


def _lock_inside(image: opened.Inside, shown: str, asked: Request) -> Lock:
    text = image.file(opened.LOCK).decode(errors="replace")
    return lockfile.read(text, f"the lock in {shown}", asked)


def _sbom(options: argparse.Namespace, world: World, out: Console) -> None:
    context = _context(options, world)
    with opened.opened(options.image, options.platform, context.store, context.access) as found:
        text, lock = (found.file(path).decode(errors="replace") for path in (opened.BILL, opened.LOCK))
    if not text.replace("\n", "").isprintable():  # nothing of an image is to reach a terminal as a command
        remedy = "an image that build.py made; docker history shows who else changed it"
        raise WorldFault("the SBOM in the image is damaged: it has control characters", options.image, remedy)
    sbom.require_of(lock, text, options.image)
    print(text, end="")


def _provenance(options: argparse.Namespace, world: World, out: Console) -> None:
    context = _context(options, world)
    with opened.opened(options.image, options.platform, context.store, context.access) as found:
        lock = _lock_inside(found, options.image, request(options))
        print(provenance.statement(lock, found.digest), end="")


def _build(options: argparse.Namespace, world: World, out: Console) -> None:
    start = world.clock()
    targets = [reference.push_target(text) for text in options.push]
    if targets:
        skopeo.require(world.environ, f"--push {targets[0]}")
    place = output.output_target(options.output) if options.output else None
    context = dataclasses.replace(_context(options, world), compiles=True)
    engine = engines.choose(options.load, world.environ, context.progress.say, elsewhere=bool(place or targets))
    pushed: list[str] = []
    with background() as tasks:
        locked = _locked(options, context, tasks)
        tags = tuple(names(options)) or (locked.lock.tag,)

        def make() -> Image:
            files = pipeline.fetch(locked.lock, context)
            made = pipeline.image(locked, files, tags, context, options.compression)
            if place:
                output.save(place, made.image, context.store, options.compression)
                bundle.write_lock(made.lock, lockfile.path_for(place.path))  # what follows may fail
            if engine:
                with context.progress.step(f"loading into {engine.name}"):
                    engine.load(made.image, context.store)
            _check_imports(made, engine, options.load, context)
            for target in targets[len(pushed) :]:
                pushed.append(_push(made, target, context, options.compression))
            return made.image

        image = _again_if_damaged(make, context)
    outcome = report.Outcome(
        image, options.output, engine.name if engine else None, tuple(pushed), world.clock() - start
    )
    if options.json:
        print(json.dumps(report.fields(outcome), indent=1))
    report.show(outcome, out)


def _again_if_damaged(make: Callable[[], Image], context: Context) -> Image:
    """Make an image; again as long as another file of the cache turns out to be damaged, which is made again then."""
    named = set[str]()
    while True:
        try:
            return make()
        except Damaged as fault:
            if fault.value in named:  # it was made again, and did not stay whole
                raise
            named.add(fault.value)
            context.progress.say(f"note: {fault.fact}: {fault.value}")


def _push(made: pipeline.Finished, target: reference.Remote, context: Context, compression: str) -> str:
    with context.progress.step(f"pushing to {target}"):
        transfer.push(made.image, target, context.store, context.access, compression)
    name = f"{target}@{made.image.digest}"
    context.progress.say(f"pushed {name}")  # what comes next may fail, and then there is no report
    with context.progress.step(f"attaching SBOM and provenance at {target}"):
        _attach(made, target, context)
    return name


def _attach(made: pipeline.Finished, target: reference.Remote, context: Context) -> None:
    """Attach the documents to an image that was pushed; a registry that takes none has the image all the same."""
    documents = attached.documents(made.lock, made.sbom, made.image.digest)
    about = attachment.subject(made.image.manifest)
    try:
        referrers.attach(documents, about, transfer.origin(target), context.store, context.access)
    except Fault as fault:
        if fault.kind not in referrers.NOT_TAKEN:
            raise
        context.progress.say(f"note: {target} has no SBOM and provenance attached: {fault.fact}: {fault.value}")


def _check_imports(made: pipeline.Finished, engine: Engine | None, load: bool | None, context: Context) -> None:
    """Import every package once in the engine that has the image."""
    if engine is None:
        if load is not False:
            context.progress.say("note: import check skipped: no engine has the image")
        return
    if made.image.platform != context.native and not _starts(made.image, engine):
        said = f"{engine.name} cannot start programs for {made.image.platform} here"
        context.progress.say(f"note: import check skipped: {said}; load the image where it can, or register qemu")
        return
    remedy = "another --transformers or --base; the image stays loaded, so that you can examine it"
    with context.progress.step("importing every package once"):
        run = partial(engine.run, made.image)
        import_check.imports(made.image, made.wanted, run, context.store, remedy)


def _starts(image: Image, engine: Engine) -> bool:
    try:
        return engine.run(image, ["true"]) is None
    except WorldFault:  # engines tell it in different ways, and some not at all
        return False


def _context(options: argparse.Namespace, world: World) -> Context:
    world.require_clock()
    if options.jobs < 1:
        raise UserFault("cannot work with that many jobs", options.jobs, "--jobs 2")
    pip = None if options.offline is not None else pip_config.read(world.environ)
    progress = Progress(Console(stderr=True, emoji=False))
    if pip:
        download.require_certificates(pip, world.environ)
    access = Access(
        environ=world.environ, certificate=pip.certificate if pip else None, mirror=options.registry_mirror,
        say=progress.say,
    )  # fmt: skip
    return Context(
        store=Store(default_root(world.environ)), environ=world.environ, today=world.today, progress=progress,
        jobs=options.jobs, pip=pip, access=access, wheelhouse=options.wheelhouse, bindings_index=options.bindings_index,
        base=options.base if lockfile.is_base_on_disk(options.base) else None,
        examples=None if options.examples == "none" else options.examples,
        native=next((each for each in PLATFORMS if each.runs_on(platform.system(), platform.machine())), None),
    )  # fmt: skip


def _locked(options: argparse.Namespace, context: Context, tasks: Start | None = None) -> Locked:
    """Return the lock that was named, or a new one."""
    asked = request(options)
    if named := _given_lock(options, asked, context):
        return Locked(named)
    if context.pip is None:
        raise UserFault("nothing can be resolved offline", "--offline", "--offline BUNDLE, or --offline --lock FILE")
    return _new_lock(asked, context, tasks)


def _given_lock(options: argparse.Namespace, asked: Request, context: Context) -> Lock | None:
    """Return the lock that was named, or that of the bundle, whose files come into the store; None without either."""
    if options.offline:
        if options.lock:
            raise UserFault("a bundle brings its own lock", f"--lock {options.lock}", f"--offline {options.offline}")
        with context.progress.step("taking the bundle"):
            text = bundle.take(options.offline, context.store)
        return lockfile.read(text, f"{options.offline}/{bundle.LOCK}", asked)
    if options.lock is None:
        return None
    if not Path(options.lock).is_file():
        raise UserFault("there is no such lock", options.lock, "a file that build.py lock --output wrote")
    return lockfile.read(Path(options.lock).read_text(errors="replace"), options.lock, asked)


def _new_lock(asked: Request, context: Context, tasks: Start | None = None) -> Locked:
    planned = planner.resolve(asked, catalog.load(), context.today)
    for note in planned.notes:
        context.progress.say(f"note: {note}")
    return pipeline.resolve(planned, context, tasks)


HANDLERS: Mapping[str, Callable[[argparse.Namespace, World, Console], None]] = {
    "build": _build, "lock": _lock, "bundle": _bundle, "verify": _verify, "sbom": _sbom,
    "provenance": _provenance,
}  # fmt: skip
