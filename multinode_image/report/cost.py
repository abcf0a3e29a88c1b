"""How long a training would take on 1, 2, 4 and 8 nodes, and what that would cost: from a first run and a network.

Measured are the speed of the first run, how much it waited, and the network (`doctor --network`). The rest is on paper
(report/scaling.py): each node has as many ranks as that run, each rank its batch, and all see the same samples once.
Where nobody types how much a step sends (rank 0 of a job says it), the gradients of all weights are taken; of an
embedding only the rows that a batch touches are sent, so that the estimate is rather too slow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.printing.secrets import hide
from multinode_image.reading import read_number, whole
from multinode_image.report.scaling import SENT, Link, Sent, Shape, Work, estimate_step
from multinode_image.report.trainings import Point, Training, measure
from multinode_image.results.states import SPEED, WAITING

NODES = (1, 2, 4, 8)
# Layers are sent one by one while others are computed; of most models for text.
LAYERS = 12
PRICE, NETWORK, LATENCY, SENT_MB, SAMPLES = "--price", "--network", "--latency", "--sent", "--samples"
NAMES = {option: option[2:] for option in (PRICE, NETWORK, LATENCY, SENT_MB, SAMPLES)}
USAGE = f"report {PRICE} 1.20 {NETWORK} 119 [{LATENCY} 0.11] [{SENT_MB} 87] [{SAMPLES} 100000] [DIRECTORY]"


class CostOptions(NamedTuple):
    """What was typed: the price of a node's hour, MB/s and ms of the network, MB that a step sends, all samples."""

    price: float
    network: float
    latency: float = 0.0
    sent: float | None = None
    samples: float | None = None


class FirstRun(NamedTuple):
    """A first run on one node.

    step: its seconds; waited: the part of them in which rank 0 waited; batch: its samples, of all ranks; sent: bytes of
    gradients of a rank; cores: those of a rank; samples: of the whole training.
    """

    step: float
    waited: float
    batch: float
    ranks: int
    sent: float
    cores: float
    samples: float


def read_cost_options(words: Sequence[str]) -> tuple[CostOptions, list[str]]:
    """Return what was typed, and the directories; raise Refusal for anything else."""
    numbers: dict[str, float] = {}
    rest, directories = list(words), []
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in NAMES:
            numbers[NAMES[name]] = parse_positive(name, value if equals else rest.pop(0) if rest else "")
        elif name.startswith("-"):
            raise Refusal("report has no such option", hide([name])[0], USAGE)
        else:
            directories.append(name + equals + value)
    if missing := {"price", "network"} - numbers.keys():
        value = " ".join(f"--{name}" for name in sorted(missing))
        raise Refusal(
            "nothing says what an hour costs, or how fast the network is", value, f"{USAGE}: doctor {NETWORK}"
        )
    return CostOptions(**numbers), directories


def parse_positive(name: str, text: str) -> float:
    """Return a number above 0; raise Refusal for any other text."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise Refusal(f"{name} takes a number above 0", repr(hide([text])[0]), USAGE)
    return value


def measure_run(training: Training, options: CostOptions) -> FirstRun:
    """Return what a training says of itself; raise Refusal where it says no speed."""
    facts, measured = training.facts, measure(training.starts[-1:])
    batch, ranks = read_number(facts.get("batch")), whole(str(facts.get("ranks")))
    middle = {name: find_middle(training.curves.get(name, ())) for name in (SPEED, WAITING)}
    speed, waited = (measured.get(name) if value is None else value for name, value in middle.items())
    if not speed or not batch or not ranks:
        remedy = "the results of a training by the Trainer in the image, of a minute or more"
        raise Refusal("no speed is known of this training", training.directory, remedy)
    samples = options.samples or training.total * batch
    cores = whole(str(facts.get("threads")).partition(",")[0]) or 1
    weights = (read_number(facts.get("weights")) or 0.0) * SENT["bf16" if facts.get("bf16") else "float32"].number
    sent = weights if options.sent is None else options.sent * 1e6
    part = min(max(waited or 0.0, 0.0), 100.0) / 100
    return FirstRun(batch / speed, part, batch, ranks, sent, cores, samples)


def find_middle(points: Sequence[Point]) -> float | None:
    """Return the median of the finite values; None where there is none."""
    values = [value for _, value in points if math.isfinite(value)]
    return statistics.median(values) if values else None


def estimate_seconds(run: FirstRun, options: CostOptions, nodes: int) -> float:
    """Return the seconds of the whole training on so many nodes; on one node a step takes what was measured."""
    step = run.step
    if nodes > 1:
        work = Work(Shape(run.sent, LAYERS, 0, 0), run.step * (1 - run.waited), cores=run.cores)
        step = estimate_step(work, Sent(1), Link(options.network * 1e6, options.latency / 1e3), nodes * run.ranks)
    return run.samples / (run.batch * nodes) * step


def write_costs(training: Training, options: CostOptions) -> str:
    """Return the table, and above it what is measured and what is not."""
    run = measure_run(training, options)
    alone = estimate_seconds(run, options, 1)
    speed = f"{run.batch / run.step:.3g} samples a second"
    source = "as typed" if options.sent else "those of all weights"
    lines = [
        f"measured: {speed} on one node of {run.ranks} rank(s): {training.directory}",
        f"typed: {options.network:g} MB/s, {options.latency:g} ms (doctor --network); "
        f"{options.price:g} an hour for a node",
        f"taken: {run.sent / 1e6:.3g} MB of gradients in a step, {source}; "
        f"{run.samples:.0f} samples, {run.batch:g} in a step of each node",
        "",
        f"{'nodes':>5}{'time':>12}{'cost':>10}{'faster':>9}{'dearer':>9}",
    ]
    for nodes in NODES:
        seconds = estimate_seconds(run, options, nodes)
        cost, dearer = nodes * seconds / 3600 * options.price, nodes * seconds / alone
        kind = "measured speed" if nodes == 1 else "estimated"
        row = f"{nodes:>5}{write_hours(seconds):>12}{cost:>10.2f}{alone / seconds:>9.2f}{dearer:>9.2f}"
        lines.append(f"{row}  {kind}")
    return "\n".join(lines)


def write_hours(seconds: float) -> str:
    """Return a time in hours and minutes, or in minutes and seconds."""
    large, small = (3600, 60) if round(seconds) >= 3600 else (60, 1)
    count, rest = divmod(round(seconds / small), large // small)
    return f"{count} h {rest:02} min" if large == 3600 else f"{count} min {rest:02} s"
