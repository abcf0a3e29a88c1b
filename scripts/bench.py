#!/usr/bin/env python3
"""Measure what the README claims: runs alternate, medians and ratios are printed, with the machine they come from.

scripts/bench.py build     our build against scripts/benchmarks/Dockerfile under BuildKit, from the same wheels
scripts/bench.py start     what the entrypoint adds to the start of a command
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from images.host.errors import Fault
from scripts.benchmarks import builds, start


def main(argv: Sequence[str]) -> int:
    """Run a benchmark; answer the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "start"))
    parser.add_argument("--runs", type=int, help="of each side (default: 3 builds, 31 starts)")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    options = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="multinode-bench-") as folder:
            if options.what == "start":
                result = start.measure(options.runs or 31)
            else:
                result = builds.measure(Path(folder), options.runs or 3)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    print(start.table(result) if options.what == "start" else table(result))
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n")
    return 0


def table(result: Mapping[str, Any]) -> str:
    """Write medians and ratios as a table in Markdown."""
    first, then = result["releases"]
    runs, unpacked = result["runs"], result["unpacked"]
    rows = [
        ("build, from downloaded parts to something that can be pushed", "first", "built", "s"),
        ("the same, and pushed to an empty local registry", "first", "pushed", "s"),
        (f"build again for another transformers ({first} → {then})", "next", "built", "s"),
        ("the same, and pushed", "next", "pushed", "s"),
        ("bytes sent by that push", "next", "sent", "MB"),
        ("image, compressed", "first", "size", "MB"),
    ]
    lines = ["| | multinode | Dockerfile | ratio |", "|---|---|---|---|"]
    for title, row, field, unit in rows:
        pair = [statistics.median(run[field] for run in runs[f"{side} {row}"]) for side in ("ours", "theirs")]
        lines.append(f"| {title} | {write(pair[0], unit)} | {write(pair[1], unit)} | {pair[0] / pair[1]:.2f} |")
    pair = [unpacked["ours"], unpacked["theirs"]]
    lines.append(f"| image, unpacked | {write(pair[0], 'MB')} | {write(pair[1], 'MB')} | {pair[0] / pair[1]:.2f} |")
    count = len(runs["ours first"])
    return "\n".join([*lines, "", f"Medians of {count} alternating runs; {result['machine']}."])


def write(value: float, unit: str) -> str:
    """Write seconds or megabytes."""
    return f"{value:.1f} s" if unit == "s" else f"{value / 1e6:.1f} MB"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
