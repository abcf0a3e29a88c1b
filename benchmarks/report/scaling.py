"""What more nodes bring, on paper, beside what was measured: tables of docs/benchmarks.md.

The model is the entrypoint's (report/scaling.py), by which `doctor --network` estimates as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.figures import of_json
from benchmarks.report.tables import draw
from multinode_image.report.scaling import BERT, DISTILBERT, SENT, Link, Work, estimate_step

# Of what a token bucket lets pass, the data: 1448 bytes in a frame of 1514 (TCP with timestamps over Ethernet).
DATA = 1448 / 1514
# A message between two containers of one machine, in seconds; of no weight beside megabytes.
LATENCY = 1e-4
NODES = (2, 4, 8, 16, 32, 64)
# The part `network` of the benchmarks: its kinds of trainings, with how many ranks each has, how many cores a rank, and
# which value of MULTINODE_GRADIENTS nobody has to choose there; and its limits in Gbit/s.
KINDS: Mapping[str, tuple[int, float, str]] = {
    "float32": (2, 1, "float32"), "bfloat16": (2, 1, "bf16"), "four bfloat16": (4, 0.5, "bf16"),
}  # fmt: skip
GIGABITS: Mapping[str, float | None] = {"unlimited": None, "10gbit": 10, "1gbit": 1, "300mbit": 0.3}
CHOICES = ("off", "default", "bf16")  # of `int8` the time of the processor is not in the model
SHOWN = 1  # Gbit/s in the table of many nodes


class Point(NamedTuple):
    """A step that was measured: its ranks and the cores of each, seconds apart, the limit in Gbit/s, seconds together.

    kind: one of KINDS; sent: a key of SENT; gigabits: None without a limit.
    """

    kind: str
    ranks: int
    cores: float
    alone: float
    gigabits: float | None
    sent: str
    seconds: float


# The guide's post (huggingface.co/blog/accelerating-pytorch) trains on QQP's 363,846 pairs for three epochs by batches
# of 32, in 11 h 22 min on one node of 64 virtual processors; its ranks have 28 threads.
POST = Work(BERT, (11 * 3600 + 22 * 60) / (363_846 * 3 / 32), 32 * 128, 28)
POST_SPEEDS: Mapping[int, float] = {2: 1.71, 4: 2.95}
POST_GIGABITS = (25.0, 5.0)


def connect(gigabits: float | None) -> Link:
    """Return a network with a limit of what each sends, in Gbit/s on the wire."""
    return Link(float("inf") if gigabits is None else gigabits * 1e9 / 8 * DATA, LATENCY)


def points(parts: Mapping[str, Any]) -> list[Point]:
    """Return what the part `network` has measured and the model describes."""
    figures, measured = of_json(parts.get("network", {})), list[Point]()
    for (kind, (ranks, cores, usual)), choice, rate in itertools.product(KINDS.items(), CHOICES, GIGABITS):
        alone, seconds = figures.median(f"{kind} apart {rate}"), figures.median(f"{kind} {choice} {rate}")
        if alone and seconds:
            sent = usual if choice == "default" else choice
            measured.append(Point(kind, ranks, cores, alone, GIGABITS[rate], sent, seconds))
    return measured


def predict(point: Point) -> float:
    """Return the seconds that a measured step takes on paper."""
    work = Work(DISTILBERT, point.alone, cores=point.cores)
    return estimate_step(work, SENT[point.sent], connect(point.gigabits), point.ranks)


def speed(work: Work, sent: str, gigabits: float, nodes: int) -> float:
    """Return how many times as many samples as one node some nodes train on in the same time, on paper."""
    return nodes * work.step / estimate_step(work, SENT[sent], connect(gigabits), nodes)


def compare_times(work: Work, gigabits: float) -> float:
    """Return the seconds in which two nodes send all gradients in float32, against those of a step alone."""
    return work.model.weights * 4 / connect(gigabits).bandwidth / work.step


def works(parts: Mapping[str, Any]) -> dict[str, Work]:
    """Return the steps apart that were measured on a core, by the type that computes."""
    figures = of_json(parts.get("network", {}))
    steps = {kind: figures.median(f"{kind} apart unlimited") for kind in ("float32", "bfloat16")}
    return {kind: Work(DISTILBERT, step) for kind, step in steps.items() if step}


def curves(parts: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return how many times as fast as one node so many NODES are, by the type that computes and what is sent."""
    return {
        f"{kind}, {sent}": [speed(work, sent, SHOWN, nodes) for nodes in NODES]
        for kind, work in works(parts).items()
        for sent in dict.fromkeys(("off", KINDS[kind][2]))
    }


def write(parts: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    measured = [write_points(points(parts)), write_nodes(curves(parts))] if works(parts) else []
    return "\n\n".join((*measured, write_post()))


def write_points(measured: Sequence[Point]) -> str:
    """Return the table of what was measured, with what the model says."""
    rows = [
        (f"{point.ranks} ranks, {'a core' if point.cores == 1 else f'{point.cores:g} cores'} each, {point.sent}, "
         f"{f'{point.gigabits:g} Gbit/s' if point.gigabits else 'no limit'}",
         f"{point.alone:.2f} s", f"{point.seconds:.2f} s", f"{predict(point):.2f} s",
         f"{round(100 * predict(point) / point.seconds) - 100:+d}%")
        for point in measured
    ]  # fmt: skip
    return draw("What was measured, and what the model says", ("apart", "together", "on paper", "differs by"), rows)


def write_nodes(curves: Mapping[str, Sequence[float]]) -> str:
    """Return the table of speeds by the number of nodes."""
    rows = [
        (f"{nodes} nodes", *(f"{curve[number]:.2f}" for curve in curves.values())) for number, nodes in enumerate(NODES)
    ]
    return draw(f"Times as fast as one node, {SHOWN} Gbit/s beside a core, on paper", list(curves), rows)


def write_post() -> str:
    """Return the table of the guide's post: as it measured, and on paper."""
    columns = [(gigabits, sent) for gigabits in POST_GIGABITS for sent in ("off", "float32", "bf16")]
    rows = [
        (
            f"{nodes} nodes",
            f"{measured:.2f}",
            *(f"{speed(POST, sent, gigabits, nodes):.2f}" for gigabits, sent in columns),
        )
        for nodes, measured in POST_SPEEDS.items()
    ]
    head = ("the post", *(f"{sent}, {gigabits:g} Gbit/s" for gigabits, sent in columns))
    return draw("Times as fast as one node, the guide's post: measured there, and on paper", head, rows)
