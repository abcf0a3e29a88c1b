"""The inputs of a command: the settings of this machine, and a lock, given or resolved now."""

from __future__ import annotations

import argparse
import dataclasses
import platform
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from images import pipeline
from images.context import Access, Context, Settings, World
from images.host.background import Progress, Start
from images.host.errors import UserFault
from images.layers import user_files
from images.lock import bundle, lockfile
from images.lock.lock import Lock
from images.pipeline import Locked
from images.plan import catalog, planner
from images.plan.plan import Plan
from images.plan.request import Request
from images.platforms import PLATFORMS
from images.servers import pip_config
from images.store.store import Store, default_root


def make_context(options: argparse.Namespace, world: World) -> Context:
    """Return what every step of a command works with.

    Raises a Fault where pip's configuration or its certificates cannot be used.
    """
    pip = None if options.offline is not None else pip_config.read_sources(world.environ)
    settings = Settings(**{one.name: getattr(options, one.name) for one in dataclasses.fields(Settings)})
    progress = Progress(Console(stderr=True, emoji=False))
    certificate = pip.certificate if pip else None
    access = Access(environ=world.environ, certificate=certificate, say=progress.say, settings=settings)
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
    user_files.keep_user_files(request.user_files, context.store)
    return lock
