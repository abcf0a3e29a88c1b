#!/usr/bin/env python3
"""Build a version-pinned, reproducible image for training Hugging Face models on CPU servers."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

try:
    from rich.console import Console

    from images import (
        assemble,
        base,
        catalog,
        check,
        examples,
        labels,
        lock,
        oci,
        ours,
        plan,
        report,
        ship,
        sources,
        tables,
    )
    from images.errors import Fault, Parser, UserFault
    from images.progress import Progress
    from images.store import Store, default_root
except ModuleNotFoundError as missing:
    sys.exit(f"error: a Python package is missing: {missing.name}\n  try: pip install -e . (in a virtual environment)")


COMMANDS = {
    "plan": "say what would be built, and build nothing",
    "list": "say which versions go together",
}


def parser(command: str | None = None) -> Parser:
    """Describe the command line: of a build, or of one of the commands."""
    if command == "list":
        made = Parser(prog="build.py list", description=COMMANDS[command], allow_abbrev=False)
        made.add_argument("--markdown", action="store_true", help="print the table of the README")
    elif command == "plan":
        made = Parser(prog="build.py plan", description=COMMANDS[command], allow_abbrev=False, parents=[_wanted()])
    else:
        commands = "\n".join(f"  build.py {name} --help   {text}" for name, text in COMMANDS.items())
        made = Parser(
            prog="build.py", description=__doc__, allow_abbrev=False, parents=[_wanted(), _result()],
            epilog=f"commands:\n{commands}", formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
    made.add_argument("--json", action="store_true", help="print one JSON object on stdout, all else on stderr")
    return made


def _wanted() -> argparse.ArgumentParser:
    """Describe what is to be built; shared by a build and by `plan`."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--torch", metavar="VERSION", help="release of PyTorch")
    made.add_argument("--transformers", metavar="VERSION", help="release of transformers")
    made.add_argument("--python", metavar="3.N", help="Python of the image (default: the base's)")
    made.add_argument("--base", metavar="debian|intel|IMAGE", help="what it stands on (default: Intel's image, if any)")
    made.add_argument(
        "--backend", choices=("ccl", "gloo"), help="of distributed training (default: ccl where it can be)"
    )
    made.add_argument("--as-of", metavar="YYYY-MM-DD", help="resolve as of this day (default: that of the releases)")
    made.add_argument("--tasks", metavar="A,B", help="example folders whose requirements go in (default: all of text)")
    made.add_argument("--examples", metavar="PATH|URL|none", help="example scripts (default: the release's archive)")
    made.add_argument("--wheelhouse", metavar="DIR", help="a folder of wheels to prefer")
    made.add_argument("--tag", help="name of the image (default: multinode:torchX-transformersY)")
    made.add_argument("--trim", action=argparse.BooleanOptionalAction, default=True, help="leave out dead weight")
    made.add_argument("--bytecode", action=argparse.BooleanOptionalAction, default=True, help="compile the modules")
    return made


def _result() -> argparse.ArgumentParser:
    """Describe what becomes of the image, and how it is made."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--output", metavar="FILE|DIR/", help="write an archive, or an OCI layout where it ends in /")
    made.add_argument("--compression", choices=("zstd", "gzip", "none"), default="zstd", help="of a layout's layers")
    made.add_argument("--load", action=argparse.BooleanOptionalAction, help="into Docker or podman (default: if found)")
    made.add_argument("--jobs", type=int, metavar="N", default=os.cpu_count(), help="layers written at once")
    return made


@dataclass(frozen=True)
class World:
    """What the build is given from outside."""

    environ: Mapping[str, str]
    today: datetime.date
    clock: Callable[[], float]


def main(argv: Sequence[str], world: World) -> int:
    """Build an image; answer the exit code: 0, 1 when the world failed, 2 when the request is wrong."""
    out = Console(stderr="--json" in argv)
    try:
        command = argv[0] if argv and argv[0] in COMMANDS else None
        options = parser(command).parse_args(argv[1:] if command else argv)
        {None: _build, "plan": _plan, "list": _list}[command](options, world, out)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept, run the same command to go on", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"error: {error.strerror}: {error.filename}\n  try: mend that and run it again", file=sys.stderr)
        return 1
    return 0


def _plan(options: argparse.Namespace, world: World, out: Console) -> None:
    planned = plan.resolve(_request(options), catalog.load())
    if options.json:
        print(json.dumps(tables.plan_fields(planned), indent=1))
    else:
        tables.show_plan(planned, out)


def _list(options: argparse.Namespace, world: World, out: Console) -> None:
    table = catalog.load()
    if options.markdown and options.json:
        raise UserFault("one format at a time", "--markdown --json", "build.py list --json")
    if options.json:
        print(json.dumps(tables.list_fields(table), indent=1))
    elif options.markdown:
        print(tables.markdown(table))
    else:
        tables.show_list(table, out)


def _build(options: argparse.Namespace, world: World, out: Console) -> None:
    start = world.clock()
    if options.jobs < 1:
        raise UserFault("cannot work with that many jobs", options.jobs, "--jobs 2")
    planned = plan.resolve(_request(options), catalog.load())
    if planned.base_reference:
        raise UserFault("only the debian base can be built so far", planned.base_reference, "--base debian")
    engine = _engine(options.load, world.environ)
    store = Store(default_root(world.environ))
    progress = Progress(Console(stderr=True))
    for note in planned.notes:
        progress.say(f"note: {note}")
    image, modules = _image(planned, options, world, store, progress)
    if engine:
        with progress.step(f"loading into {engine.name}"):
            ship.load(engine, image, store, world.environ)
        with progress.step("importing every package once"):
            check.imports(engine, image, modules, store, world.environ)
    archive = str(ship.save(options.output, image, store, options.compression)) if options.output else None
    seconds = world.clock() - start
    if options.json:
        print(json.dumps(report.fields(image, archive, seconds), indent=1))
    report.show(image, archive, engine.name if engine else None, seconds, out)


def _request(options: argparse.Namespace) -> plan.Request:
    tasks = tuple(task for task in (options.tasks or "").split(",") if task)
    same = {field.name: getattr(options, field.name) for field in fields(plan.Request) if field.name != "tasks"}
    return plan.Request(tasks=tasks, **same)


def _engine(wanted: bool | None, environ: Mapping[str, str]) -> ship.Engine | None:
    engine = None if wanted is False else ship.find_engine(environ)
    if wanted and engine is None:
        remedy = "start Docker (or install podman), or --no-load --output FILE"
        raise Fault("no engine to load the image into", environ.get("DOCKER_HOST", "no Docker, no podman"), remedy)
    return engine


def _image(
    planned: plan.Plan, options: argparse.Namespace, world: World, store: Store, progress: Progress
) -> tuple[oci.Image, list[str]]:
    pip = sources.read(world.environ)
    with progress.step("resolving"):
        locked = lock.make(planned, pip, store, world.environ)
    found = assemble.collect(locked, planned, store, pip.certificate, progress, options.jobs)
    with progress.step("fetching the examples"):
        taken = (
            examples.obtain(store, planned.examples, pip.certificate, progress.advance) if planned.examples else None
        )
    with progress.step("Debian base"):
        debian, reused = base.make(store, planned.base, world.today, world.environ)
    below = oci.Part("debian base", debian.written, reused)
    parts = (below, *assemble.layers(planned, locked, found, debian, taken, store, progress, options.jobs))
    created = f"{planned.family_as_of}T00:00:00Z"
    config = oci.config(parts, ours.settings(labels.make(planned, locked, debian)), created)
    manifest = ship.registry_manifest(
        config, parts, store, "zstd" if options.compression == "none" else options.compression
    )
    return oci.Image(planned.tag, config, manifest, parts), check.modules(wheel.path for wheel in found)


if __name__ == "__main__":
    today = datetime.datetime.now(datetime.timezone.utc).date()
    sys.exit(main(sys.argv[1:], World(os.environ, today, time.monotonic)))
