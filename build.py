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
from dataclasses import dataclass
from typing import Any, NoReturn

try:
    from rich.console import Console

    from images import assemble, base, catalog, check, examples, labels, lock, oci, ours, plan, ship, sources
    from images.errors import Fault, UserFault
    from images.progress import Progress
    from images.store import Store, default_root
except ModuleNotFoundError as missing:
    sys.exit(f"error: a Python package is missing: {missing.name}\n  try: pip install -e . (in a virtual environment)")


class Parser(argparse.ArgumentParser):
    """argparse with errors in three parts."""

    def error(self, message: str) -> NoReturn:
        raise UserFault("cannot read the command line", message, f"{self.prog} --help")


def parser() -> Parser:
    """Describe the command line."""
    made = Parser(prog="build.py", description=__doc__, allow_abbrev=False)
    made.add_argument("--torch", metavar="VERSION", help="release of PyTorch")
    made.add_argument("--transformers", metavar="VERSION", help="release of transformers")
    made.add_argument("--tasks", metavar="A,B", help="example folders whose requirements go in (default: all of text)")
    made.add_argument("--examples", metavar="PATH|URL|none", help="example scripts (default: the release's archive)")
    made.add_argument("--wheelhouse", metavar="DIR", help="a folder of wheels to prefer")
    made.add_argument("--tag", help="name of the image (default: multinode:torchX-transformersY)")
    made.add_argument("--output", metavar="FILE|DIR/", help="write an archive, or an OCI layout where it ends in /")
    made.add_argument("--compression", choices=("zstd", "gzip", "none"), default="zstd", help="of a layout's layers")
    made.add_argument("--load", action=argparse.BooleanOptionalAction, help="into Docker or podman (default: if found)")
    made.add_argument("--trim", action=argparse.BooleanOptionalAction, default=True, help="leave out dead weight")
    made.add_argument("--bytecode", action=argparse.BooleanOptionalAction, default=True, help="compile the modules")
    made.add_argument("--jobs", type=int, metavar="N", default=os.cpu_count(), help="layers written at once")
    made.add_argument("--json", action="store_true", help="print one JSON object on stdout, all else on stderr")
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
        options = parser().parse_args(argv)
        _build(options, world, out)
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


def _build(options: argparse.Namespace, world: World, out: Console) -> None:
    start = world.clock()
    planned = plan.resolve(_request(options), catalog.load())
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
    _tell(image, archive, engine, world.clock() - start, out, as_json=options.json)


def _request(options: argparse.Namespace) -> plan.Request:
    if options.jobs < 1:
        raise UserFault("cannot work with that many jobs", options.jobs, "--jobs 2")
    tasks = tuple(task for task in (options.tasks or "").split(",") if task)
    same = ("torch", "transformers", "examples", "tag", "wheelhouse", "trim", "bytecode")
    return plan.Request(tasks=tasks, **{name: getattr(options, name) for name in same})


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


def _tell(
    image: oci.Image, archive: str | None, engine: ship.Engine | None, seconds: float, out: Console, *, as_json: bool
) -> None:
    if as_json:
        print(json.dumps(_report(image, archive, seconds), indent=1))
    for part in image.parts:
        state = "reused" if part.reused else "new"
        out.print(f"{part.name:<14} {part.written.size / 1e6:7.1f} MB  {state}", highlight=False)
    total = sum(part.written.size for part in image.parts)
    unpacked = sum(part.written.unpacked for part in image.parts)
    out.print(f"{'total':<14} {total / 1e6:7.1f} MB  ({unpacked / 1e6:.1f} MB unpacked)", highlight=False)
    lines = {"id": image.id, "digest": image.digest, "tag": image.tag, "archive": archive}
    lines |= {"loaded": f"into {engine.name}" if engine else None, "seconds": f"{seconds:.1f}"}
    for name, value in lines.items():
        if value:
            out.print(f"{name:<14} {value}", highlight=False, soft_wrap=True)


def _report(image: oci.Image, archive: str | None, seconds: float) -> dict[str, Any]:
    layers = [
        {"name": p.name, "digest": f"sha256:{p.written.digest}", "size": p.written.size, "reused": p.reused}
        for p in image.parts
    ]
    named = {"image": image.tag, "id": image.id, "digest": image.digest, "archive": archive}
    sizes = {"size": sum(p.written.size for p in image.parts), "unpacked": sum(p.written.unpacked for p in image.parts)}
    return {**named, "layers": layers, **sizes, "seconds": round(seconds, 3)}


if __name__ == "__main__":
    today = datetime.datetime.now(datetime.timezone.utc).date()
    sys.exit(main(sys.argv[1:], World(os.environ, today, time.monotonic)))
