"""Measure: runs alternate; medians and ratios are printed, with the machine they come from.

python -m benchmarks build     our build by itself, and against two Dockerfiles from the same wheels under BuildKit
python -m benchmarks image     sizes, with bytecode and without, against a Dockerfile's
python -m benchmarks start     what the entrypoint adds to a command, and the way to the first step of a training
python -m benchmarks train     the examples' scripts against the guide's command, with what is learned; bf16
python -m benchmarks plain     the scripts, a step and texts of like length in float32, without units for bf16
python -m benchmarks example   real scripts on one node and two: how soon a small real model learns, by either way
python -m benchmarks settings  a step of training: tuned and untuned, alone and together
python -m benchmarks network   a step in two containers with less of a network between them, by what ranks send
python -m benchmarks network-plain  the same in float32, without units for bf16
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import figures, promises
from benchmarks.figures import Figures, of_json
from benchmarks.host import machine, scratch
from benchmarks.host.scratch import Scratch
from benchmarks.parts import build, example, image, network, plain, settings, start, train
from benchmarks.report import tables
from images.host.errors import Fault, UserFault
from images.options import Parser

# What measures a part, and how many runs it has.
PARTS: Mapping[str, tuple[Callable[[Scratch, Figures, int], None], int]] = {
    "build": (build.measure, build.RUNS),
    "image": (image.measure, image.RUNS),
    "start": (start.measure, start.RUNS),
    "train": (train.measure, train.RUNS),
    "plain": (plain.measure, plain.RUNS),
    "example": (example.measure, example.RUNS),
    "settings": (settings.measure, settings.RUNS),
    "network": (network.measure, network.RUNS),
    "network-plain": (network.measure_plain, network.RUNS),
}
INTERRUPTED = 130


def main(argv: Sequence[str], open_scratch: Callable[..., Any] = scratch.opened) -> int:
    """Run a part; return 0, 1 when a promise of a ratio, a size or memory is missed, 2 for a mistake of the user."""
    parser = Parser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=PARTS)
    parser.add_argument("--runs", type=int, metavar="N", help="runs of each side (default: as in the tables)")
    parser.add_argument("--json", metavar="FILE", help="put every figure there; those of other parts stay")
    try:
        options = parser.parse_args(argv)
        _check(options)
        part = _measure(options, open_scratch)
        print(tables.whole(options.what, part))  # first, so that hours of measuring are not lost with the file
        if options.json:
            figures.put(Path(options.json), options.what, part)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    except KeyboardInterrupt:
        print("interrupted; nothing was kept", file=sys.stderr)
        return INTERRUPTED
    return int(any(verdict.fails for verdict in promises.judge({options.what: of_json(part)})))


def _measure(options: argparse.Namespace, open_scratch: Callable[..., Any]) -> dict[str, Any]:
    """Run a part and return what the file has of it."""
    (measure, usual), measured = PARTS[options.what], Figures()
    runs = options.runs or usual
    described = machine.describe(machine.await_quiet(lambda: os.getloadavg()[0]))
    began = time.monotonic()
    with open_scratch() as opened:
        measure(opened, measured, runs)
    return {
        "day": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "runs": runs,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "machine": described,
        **measured.as_json(),
    }


def _check(options: argparse.Namespace) -> None:
    """Refuse before the measuring what would fail after it."""
    if options.runs is not None and options.runs < 1:
        raise UserFault("cannot measure with that many runs", options.runs, "--runs 3")
    if not options.json:
        return
    if not Path(options.json).absolute().parent.is_dir():
        raise UserFault("there is no such directory", Path(options.json).parent, "--json FILE in one that exists")
    figures.read(Path(options.json))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
