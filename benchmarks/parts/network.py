"""The parts `network` and `network-plain`: containers with a limit of what each sends, that train by turns.

They train in some ways, a step each in turn. Two containers have a core each, four have half a core each. The second
part computes in float32 only: where the processor has units for bf16, they are hidden.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.figures import Figures
from benchmarks.host.containers import Setting
from benchmarks.host.group import LARGE, SMALL, TURNS, WARM, Group
from benchmarks.host.machine import check_units
from benchmarks.host.scratch import Scratch
from benchmarks.sides import hidden_units
from benchmarks.sides.multinode import build_for_two
from multinode_image.machine.files import read_text

RUNS = 1
FOUR = 4
RATES = ("", "10gbit", "1gbit", "300mbit")
KINDS = ("float32", "bfloat16", "four bfloat16")
# Beside the first kind, larger batches of longer texts, which compute for longer between two exchanges.
PLAIN_KINDS: Mapping[str, Sequence[str]] = {
    "float32": RATES, "four float32": ("", "1gbit"), "long float32": ("", "1gbit"),
}  # fmt: skip
MOST = 600.0  # seconds of all ways under a limit
# Ways of turns.py under every limit: `apart` sends nothing, `default` is what nobody has chosen, `off` what
# DistributedDataParallel does itself; and further ways under some limits.
WAYS = ("apart", "default", "off")
MORE: Mapping[tuple[str, str], Sequence[str]] = {
    ("float32", "300mbit"): ("bf16", "int8"),
    ("bfloat16", "300mbit"): ("int8",),
}


def measure(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train in float32, and in bfloat16 where the processor has units for it."""
    image = build_for_two(scratch, "network")
    for number in scratch.rounds(runs):
        scratch.say(f"run {number + 1}")
        measure_kind(open_group(scratch, image, KINDS[0]), figures, KINDS[0])
        with figures.optional("trainings in bfloat16"):
            check_units(read_text("/proc/cpuinfo") or "")
            for kind in KINDS[1:]:
                measure_kind(open_group(scratch, image, kind), figures, kind)


def measure_plain(scratch: Scratch, figures: Figures, runs: int) -> None:
    """Train in float32 under each limit of a kind."""
    image, given = build_for_two(scratch, "network-plain"), hidden_units.hide(scratch.directory)
    for number in scratch.rounds(runs):
        for kind, rates in PLAIN_KINDS.items():
            scratch.say(f"run {number + 1}, {kind}")
            measure_kind(open_group(scratch, image, kind, given), figures, kind, rates)


def open_group(scratch: Scratch, image: str, kind: str, given: Setting | None = None) -> Group:
    """Return the containers of a kind; given: what each has besides."""
    return Group(scratch, image, FOUR if kind.startswith("four ") else 2, TURNS, MOST, given or Setting())


def measure_kind(group: Group, figures: Figures, kind: str, rates: Sequence[str] = RATES) -> None:
    """Train under every limit; a long kind has larger batches of longer texts."""
    dtype = kind.rpartition(" ")[2]
    shape = replace(LARGE, steps=2, dtype=dtype) if kind.startswith("long ") else replace(SMALL, steps=6, dtype=dtype)
    for rate in rates:
        limit = rate or "no limit"
        group.scratch.say(f"{kind}, {limit}")
        with figures.optional(f"a network with {limit}, {kind}"):
            text = group.together([*shape.words, *WAYS, *MORE.get((kind, rate), ())], rate)
            for way, seconds in json.loads(text.strip().splitlines()[-1]).items():
                for step in seconds[WARM:]:
                    figures.add(f"{kind} {way} {rate or 'unlimited'}", step)
