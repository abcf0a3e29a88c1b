"""The commands that work with files: lock, bundle, verify, sbom and provenance; build has a module of its own."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from images import building, inputs, pipeline, report
from images.check import attached, opened, provenance, verify
from images.context import Context, World
from images.host.errors import UserFault, WorldFault
from images.host.files import require_writable
from images.lock import bundle, lockfile
from images.lock.lock import Lock
from images.options import read_request
from images.pipeline import Locked
from images.plan.request import Request


def _write_lock(options: argparse.Namespace, world: World, out: Console) -> None:
    place = Path(options.output).absolute() if options.output else None
    if place and place.is_dir():
        raise UserFault("that is a directory", options.output, "--output with the path of a file")
    if place:
        require_writable(place.parent)
    [locked] = inputs.make_locks(options, [read_request(options)], inputs.make_context(options, world))
    if place:
        bundle.write_lock(locked.lock, place)
    else:
        _print_whole(lockfile.format_lock(locked.lock, with_origin=True), lockfile.NAME)


def _bundle(options: argparse.Namespace, world: World, out: Console) -> None:
    bundle.require_free(options.output)  # said now, not after the downloads
    context = inputs.make_context(options, world)
    [locked] = inputs.make_locks(options, [read_request(options)], context)
    lock = locked.lock
    pipeline.fetch_files(lock, context)
    with context.progress.step("writing the bundle"):
        place = bundle.write_bundle(lock, context.store, options.output)
    if options.json:
        print(json.dumps({"bundle": str(place), "files": len(lock.files())}))
    out.print(f"bundle         {place}  ({len(lock.files())} files)", highlight=False, markup=False, soft_wrap=True)


def _verify(options: argparse.Namespace, world: World, out: Console) -> None:
    context = dataclasses.replace(inputs.make_context(options, world), compiles=True)
    wanted = read_request(options)
    named = inputs.read_given_lock(options, wanted, context)
    with opened.open_image(options.image, options.platform, context.store, context.access) as opened_images:
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


def _verdict(inside: opened.Inside, lock: Lock, context: Context) -> report.Verdict:
    """Build an image again from its lock, and compare."""
    files = pipeline.fetch_files(lock, context)
    built = pipeline.build_image(Locked(lock), files, (inside.name,), context)
    paths = [context.store.place(layer.written.digest) for layer in built.image.layers]
    difference = verify.compare_images(inside, built.image, paths)
    there = attached.Attached({}, ())
    if inside.remote and not difference:
        known = attached.write_documents(built.lock, built.sbom, inside.manifest)
        there = attached.compare_attached(known, inside.indexes, inside.remote, context.access)
    return report.Verdict(inside, built.image.digest, difference, there)


def _lock_inside(image: opened.Inside, shown: str, wanted: Request, context: Context) -> Lock:
    text = image.file(opened.LOCK).decode(errors="replace")
    return inputs.take_lock(text, f"the lock in {shown}", wanted, context)


def _only(images: Sequence[opened.Inside], platform: str | None = None) -> opened.Inside:
    """Return the only image of a name, or the one for `platform`; raise UserFault if several are left."""
    if len(images) > 1:
        value = f"{images[0].name} ({', '.join(image.platform for image in images)})"
        remedy = f"--platform {platform or images[0].platform}"
        raise UserFault("there is an image for each of several platforms", value, remedy)
    return images[0]


def _sbom(options: argparse.Namespace, world: World, out: Console) -> None:
    context = inputs.make_context(options, world)
    with opened.open_image(options.image, options.platform, context.store, context.access) as images:
        text = _only(images).file(opened.BILL).decode(errors="replace")
    _unproved(options, context)
    _print_whole(text, options.image)


def _provenance(options: argparse.Namespace, world: World, out: Console) -> None:
    context = inputs.make_context(options, world)
    with opened.open_image(options.image, options.platform, context.store, context.access) as images:
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
    "build": building.build, "lock": _write_lock, "bundle": _bundle, "verify": _verify, "sbom": _sbom,
    "provenance": _provenance,
}  # fmt: skip
