"""Measure: runs alternate; medians and ratios are printed, with the machine they come from.

python -m benchmarks build     our build against benchmarks/Dockerfile under BuildKit, from the same wheels
python -m benchmarks start     what the entrypoint adds to the start of a command
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import builds, start
from images.host.errors import Fault, Parser, UserFault


def main(argv: Sequence[str]) -> int:
    """Run a benchmark; return the exit code."""
    parser = Parser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("build", "start"))
    parser.add_argument("--runs", type=int, metavar="N", help="of each side (default: 3 builds, 31 starts)")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    try:
        options = parser.parse_args(argv)
        _check(options)
        if options.what == "start":
            measured = start.measure(options.runs or 31)
            print(start.table(measured))
        else:
            with tempfile.TemporaryDirectory(prefix="multinode-benchmark-") as work:
                measured = builds.measure(Path(work), options.runs or 3)
            print(builds.table(measured))
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    if options.json:
        Path(options.json).write_text(json.dumps(measured, indent=1) + "\n")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse before the measuring what would fail after it."""
    if options.runs is not None and options.runs < 1:
        raise UserFault("cannot measure with that many runs", options.runs, "--runs 3")
    if options.json and not Path(options.json).absolute().parent.is_dir():
        raise UserFault("there is no such directory", Path(options.json).parent, "--json FILE in one that exists")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
