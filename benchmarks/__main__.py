"""Measure: runs alternate; medians and ratios are printed, with the machine they come from.

python -m benchmarks build     our build by itself, and against two Dockerfiles from the same wheels under BuildKit
python -m benchmarks image     sizes, with bytecode and without, against a Dockerfile's
python -m benchmarks start     what the entrypoint adds to a command, and the way to the first step of a training
python -m benchmarks train     the examples' scripts against the guide's command, with what is learned; bf16
python -m benchmarks plain     the scripts, a step and texts of like length in float32, without units for bf16
python -m benchmarks example   real scripts on one node and two: how soon a small real model learns, by either way
python -m benchmarks settings  a step of training: tuned and untuned, alone and together, by gloo and oneCCL
python -m benchmarks network   a step in two containers with less of a network between them, by what ranks send
python -m benchmarks network-plain  the same in float32, without units for bf16
python -m benchmarks store     many releases of transformers in one store
python -m benchmarks plot      draw the plots of docs/benchmarks.json (its tables: python -m scripts.pages)
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.build import measure as build
from benchmarks.example import measure as example
from benchmarks.figures import file, promises
from benchmarks.figures.measured import Figures, of_json
from benchmarks.host import machine, scratch
from benchmarks.image import measure as image
from benchmarks.network import measure as network
from benchmarks.network import plain as network_plain
from benchmarks.plain import measure as plain
from benchmarks.report import pages, tables
from benchmarks.settings import measure as settings
from benchmarks.start import measure as start
from benchmarks.store import measure as store
from benchmarks.train import measure as train
from images.host.errors import Fault, UserFault
from images.options import Parser

PARTS: Mapping[str, ModuleType] = {
    "build": build, "image": image, "start": start, "train": train, "plain": plain, "example": example,
    "settings": settings, "network": network, "network-plain": network_plain, "store": store,
}  # fmt: skip
PLOT = "python -m benchmarks plot"
INTERRUPTED = 130


def main(argv: Sequence[str], open_scratch: Callable[..., Any] = scratch.opened) -> int:
    """Run a part; return 0, 1 when a promise of a ratio, a size or memory is missed, 2 for a mistake of the user."""
    parser = Parser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=(*PARTS, "plot"))
    parser.add_argument(
        "--runs", type=int, metavar="N", help="runs of each side; for `store`, releases (default: as in the tables)"
    )
    parser.add_argument("--json", metavar="FILE", help="put every figure there; those of other parts stay")
    try:
        options = parser.parse_args(argv)
        _check(options)
        if options.what == "plot":
            pages.draw()
            return 0
        part = _measure(options, open_scratch)
        print(tables.whole(options.what, part))  # first, so that hours of measuring are not lost with the file
        if options.json:
            file.put(Path(options.json), options.what, part)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    except KeyboardInterrupt:
        print("interrupted; nothing was kept", file=sys.stderr)
        return INTERRUPTED
    return int(any(verdict.fails for verdict in promises.judge({options.what: of_json(part)})))


def _measure(options: argparse.Namespace, open_scratch: Callable[..., Any]) -> dict[str, Any]:
    """Run a part and return what the file has of it."""
    part, figures = PARTS[options.what], Figures()
    runs = options.runs or int(part.RUNS)
    described = machine.describe(machine.await_quiet(lambda: os.getloadavg()[0]))
    began = time.monotonic()
    with open_scratch() as opened:
        part.measure(opened, figures, runs)
    return {
        "day": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "runs": runs,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "machine": described,
        **figures.as_json(),
    }


def _check(options: argparse.Namespace) -> None:
    """Refuse before the measuring what would fail after it."""
    if options.what == "plot" and (options.json or options.runs is not None):
        fact = "the plots are drawn from docs/benchmarks.json alone, and nothing is measured"
        raise UserFault(fact, f"--json {options.json}" if options.json else f"--runs {options.runs}", PLOT)
    if options.runs is not None and options.runs < 1:
        raise UserFault("cannot measure with that many runs", options.runs, "--runs 3")
    if not options.json:
        return
    if not Path(options.json).absolute().parent.is_dir():
        raise UserFault("there is no such directory", Path(options.json).parent, "--json FILE in one that exists")
    file.read(Path(options.json))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
