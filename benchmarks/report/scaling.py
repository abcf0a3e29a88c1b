"""What a second node brings, on paper, beside what was measured: tables of docs/benchmarks.md.

The model is the entrypoint's (programs/scaling.py), by which `doctor --network` estimates as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from entrypoint.programs.scaling import BERT, DISTILBERT, SENT, Link, Sent, Work, estimate_step

# Of what a token bucket lets pass, the data: 1448 bytes in a frame of 1514 (TCP with timestamps over Ethernet).
DATA = 1448 / 1514
# A message between two containers of one machine, in seconds; of no weight beside megabytes.
LATENCY = 1e-4
NODES = (2, 4, 8, 16, 32, 64)
WITHOUT_ROWS = Sent(2)


class Point(NamedTuple):
    """A step of two ranks that was measured: its limit in Gbit/s, None without one; what was sent; seconds.

    alone: seconds of a step apart; sent: a key of SENT, or "bf16, whole embeddings".
    """

    alone: float
    gigabits: float | None
    sent: str
    seconds: float


# Two ranks of a core each of an EPYC in two network namespaces, 8 x 128, torch 2.13.0, gloo, medians of 8 to 11 steps
# on 2026-11-26; where a cell was measured twice, the mean. 1.19 s: with --bf16.
POINTS = (
    Point(2.91, None, "off", 3.17),
    Point(2.91, 1, "off", 4.24),
    Point(2.91, 0.3, "off", 8.98),
    Point(2.91, 1, "float32", 3.44),
    Point(2.91, 0.3, "float32", 6.38),
    Point(2.91, None, "bf16", 3.34),
    Point(2.91, 1, "bf16", 3.24),
    Point(2.91, 0.3, "bf16", 3.95),
    Point(2.91, 1, "bf16, whole embeddings", 3.65),
    Point(1.19, 1, "off", 2.94),
    Point(1.19, 1, "bf16", 1.39),
)
# The guide's post (huggingface.co/blog/accelerating-pytorch) trains on QQP's 363,846 pairs for three epochs by batches
# of 32, in 11 h 22 min on one node of 64 virtual processors; its ranks have 28 threads.
POST = Work(BERT, (11 * 3600 + 22 * 60) / (363_846 * 3 / 32), 32 * 128, 28)
POST_SPEEDS: Mapping[int, float] = {2: 1.71, 4: 2.95}
POST_GIGABITS = (25.0, 5.0)


def connect(gigabits: float | None) -> Link:
    """Return a network with a limit of what each sends, in Gbit/s on the wire."""
    return Link(float("inf") if gigabits is None else gigabits * 1e9 / 8 * DATA, LATENCY)


def predict(point: Point) -> float:
    """Return the seconds that a measured step takes on paper."""
    sent = SENT.get(point.sent, WITHOUT_ROWS)
    return estimate_step(Work(DISTILBERT, point.alone), sent, connect(point.gigabits), 2)


def speed(work: Work, sent: str, gigabits: float, nodes: int) -> float:
    """Return how many times as many samples as one node some nodes train on in the same time, on paper."""
    return nodes * work.step / estimate_step(work, SENT[sent], connect(gigabits), nodes)


def compare_times(work: Work, gigabits: float) -> float:
    """Return the seconds in which two nodes send all gradients in float32, against those of a step alone."""
    return work.model.weights * 4 / connect(gigabits).bandwidth / work.step


def write(_: object = None) -> str:
    """Return the section of the page."""
    return "\n\n".join((write_points(), write_nodes(), write_post()))


def write_points() -> str:
    """Return the table of what was measured, with what the model says."""
    rows = [
        (f"{each.sent}, {f'{each.gigabits:g} Gbit/s' if each.gigabits else 'no limit'}", f"{each.alone:.2f} s",
         f"{each.seconds:.2f} s", f"{predict(each):.2f} s", f"{round(100 * predict(each) / each.seconds) - 100:+d}%")
        for each in POINTS
    ]  # fmt: skip
    return write_table("Two ranks of a core each", ("apart", "together", "on paper", "differs by"), rows)


def write_nodes() -> str:
    """Return the table of speeds by the number of nodes."""
    columns = [(Work(DISTILBERT, 2.91), "off"), (Work(DISTILBERT, 2.91), "float32"), (Work(DISTILBERT, 2.91), "bf16"),
               (Work(DISTILBERT, 1.19), "off"), (Work(DISTILBERT, 1.19), "bf16")]  # fmt: skip
    head = [f"{sent}{', `--bf16`' if work.step < 2 else ''}" for work, sent in columns]
    rows = [(f"{nodes} nodes", *(f"{speed(*column, 1, nodes):.2f}" for column in columns)) for nodes in NODES]
    return write_table("Times as fast as one node, 1 Gbit/s beside a core", head, rows)


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
    return write_table("Times as fast as one node, the guide's post: measured there, and on paper", head, rows)


def write_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = ["| | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    return "\n".join([f"**{title}**", "", *lines, *("| " + " | ".join(row) + " |" for row in rows)])
