"""How long a step of several ranks takes, on paper: what each sends, and what of it the computing hides.

A backward pass makes the gradients of one layer after another, the last layer's first, and of the embedding at its end.
Each is sent once it is there and the ones before are gone. Ranks that sum send around a ring: each sends, and receives,
2 (n - 1) / n of the bytes in 2 (n - 1) messages. Rows of an embedding are collected: each rank's go to all others.
"""

from __future__ import annotations

from typing import NamedTuple

# Of a step: a backward pass computes two products where the forward pass computes one.
BACKWARD = 2 / 3
# Seconds of a core for each byte that it sends, to copy and to add. Two ranks without a limit, and apart, took 3.17 and
# 2.91 s a step on one EPYC, for 265 MB, and on a slower one 4.67 and 4.09 s, twice as much.
SPENT = 1e-9


class Shape(NamedTuple):
    """The shape of a model: its weights, layers of equal size, and of the embedding the rows and their width."""

    weights: float
    layers: int
    rows: int
    width: int


DISTILBERT = Shape(66.4e6, 6, 30522, 768)
BERT = Shape(109.5e6, 12, 30522, 768)


class Work(NamedTuple):
    """What a rank does: a model, the seconds of a step alone, the words of a batch, the cores that compute."""

    model: Shape
    step: float
    words: int = 8 * 128
    cores: float = 1


class Sent(NamedTuple):
    """What is sent: bytes of a number, and of one in a row of an embedding; 0 where whole embeddings are summed."""

    number: float
    row: float = 0


# By the values of MULTINODE_GRADIENTS. The time in which a processor makes 8 bits of numbers is not known here.
SENT = {"off": Sent(4), "float32": Sent(4, 4), "bf16": Sent(2, 2), "int8": Sent(1 + 4 / 512, 4)}


class Link(NamedTuple):
    """A network: bytes a second that a rank sends, data alone, and seconds until a small message is there."""

    bandwidth: float
    latency: float = 0.0


def estimate_step(work: Work, sent: Sent, link: Link, ranks: int) -> float:
    """Return the seconds of a step of several ranks, each of which computes as alone."""
    model, backward = work.model, work.step * BACKWARD
    table = model.rows * model.width
    ring = 2 * (ranks - 1) / ranks
    layer, last = ring * (model.weights - table) / model.layers * sent.number, ring * table * sent.number
    if sent.row:
        last = min(last, (ranks - 1) * min(work.words, model.rows) * (model.width * sent.row + 4))
    wait, free = 2 * (ranks - 1) * link.latency, 0.0
    for number in range(model.layers):
        free = max(free, backward * (number + 1) / model.layers) + layer / link.bandwidth + wait
    free = max(free, backward) + last / link.bandwidth + wait
    return work.step + free - backward + SPENT / work.cores * (model.layers * layer + last)


def estimate_share(work: Work, sent: Sent, link: Link, ranks: int) -> float:
    """Return the share of a step that the other ranks cost, from 0 to 1."""
    return 1 - work.step / estimate_step(work, sent, link, ranks)
