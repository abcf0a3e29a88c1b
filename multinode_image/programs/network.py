"""Measure the network between ranks by the backend of the image, and estimate what it costs a training.

It says what a rank sends in a second while all of them sum, how long a message takes, and how long a step would take
alone, from one layer that is trained here. The share of a step that other ranks cost follows on paper
(report/scaling.py).
"""

from __future__ import annotations

import datetime
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

import torch
import torch.distributed as dist

from multinode_image.machine.files import read_text
from multinode_image.machine.limits import has_bf16, read_flags
from multinode_image.programs.leave import leave
from multinode_image.programs.probe import import_backend
from multinode_image.report.scaling import BERT, DISTILBERT, SENT, Link, Work, estimate_share

# A bucket of DistributedDataParallel has 25 MB. A slow network is measured by the largest of these that it can bear.
SIZES = (1 << 20, 2 << 20, 8 << 20, 25 << 20)
# Seconds in which sums are timed, and the least and the greatest number of them.
SECONDS, LEAST, MOST = 2.0, 3, 200
# How long a rank that is gone is waited for; a training waits half an hour.
PATIENCE = datetime.timedelta(minutes=2)
MESSAGES, STEPS = 50, 3
BATCH, LENGTH, HEADS = 8, 128, 12
NAMES = {"66 million weights": DISTILBERT, "110 million weights": BERT}


class Measured(NamedTuple):
    """What was measured; steps: seconds in which a layer is trained, by the type that computes."""

    backend: str
    ranks: int
    cores: int
    link: Link
    steps: Mapping[str, float]


def main(argv: Sequence[str], _: Mapping[str, str], __: str) -> NoReturn:
    """Measure on all ranks with a backend, the only argument, and let rank 0 print it."""
    (backend,) = argv
    import_backend(backend)
    dist.init_process_group(backend, timeout=PATIENCE)
    measured = measure(backend)
    if dist.get_rank() == 0:
        print(describe(measured), flush=True)
    leave(0)


def measure(backend: str) -> Measured:
    """Measure the link first; then a layer, while nothing is sent."""
    ranks, link = dist.get_world_size(), measure_link()
    lacks = slowest(float(not has_bf16(read_flags(read_text("/proc/cpuinfo")))))  # one rank without units is enough
    types = ["float32", *([] if lacks else ["bfloat16"])]
    steps = {dtype: slowest(time_layer(lowered=dtype != "float32")) for dtype in types}
    return Measured(backend, ranks, torch.get_num_threads(), link, steps)


def measure_link() -> Link:
    """Return what a rank sends in a second, of the slowest rank, and the seconds of a message."""
    ranks = dist.get_world_size()
    steps = 2 * (ranks - 1)
    alike = torch.zeros(1)
    latency = slowest(min(time_sum(alike) for _ in range(MESSAGES))) / steps
    size, one = choose_size()
    numbers = torch.zeros(size // 4)
    count = min(MOST, max(LEAST, round(SECONDS / one)))
    seconds = slowest(statistics.median(time_sum(numbers) for _ in range(count)))  # one that stalled does not count
    return Link(steps / ranks * size / seconds, latency)


def choose_size() -> tuple[int, float]:
    """Return the bytes of the sums to time, and the seconds of one.

    From the smallest up: a limit lets a burst pass before it holds.
    """
    for size, larger in zip(SIZES, (*SIZES[1:], 0)):
        seconds = slowest(time_sum(torch.zeros(size // 4)))
        if seconds * larger / size * LEAST > 2 * SECONDS:
            break
    return size, seconds


def time_sum(numbers: torch.Tensor) -> float:
    """Return the seconds in which all ranks sum a tensor."""
    dist.barrier()
    return clock(lambda: dist.all_reduce(numbers))


def slowest(seconds: float) -> float:
    """Return the longest of all ranks' times, which all ranks then know."""
    longest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return float(longest)


def time_layer(*, lowered: bool) -> float:
    """Return the seconds in which a layer of DistilBERT is trained, the least of some times; lowered: in bfloat16."""
    width = DISTILBERT.width
    layer = torch.nn.TransformerEncoderLayer(width, HEADS, 4 * width, activation="gelu", batch_first=True)
    words = torch.randn(BATCH, LENGTH, width, requires_grad=True)  # as what the layer before it has made
    optimizer = torch.optim.AdamW(layer.parameters())

    def train() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
            loss = layer(words).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return min(clock(train) for _ in range(1 + STEPS))


def clock(action: Callable[[], object]) -> float:
    """Return the seconds of an action."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def describe(measured: Measured) -> str:
    """Return what was measured, and a table of what that would cost."""
    rate, modes, cores = measured.link.bandwidth, list(SENT), f"{measured.cores} core{'s'[: measured.cores > 1]}"
    lines = [
        f"{measured.ranks} ranks, {measured.backend}: each sends {rate / 1e6:.0f} MB/s "
        f"({rate * 8e-9:.2f} Gbit/s of data), a message takes {measured.link.latency * 1e3:.2f} ms",
        "",
        "The share of a step that is lost to the other ranks, estimated from that, for each MULTINODE_GRADIENTS.",
        f"alone: a step of {BATCH} x {LENGTH} words, as many layers as one that was measured here on {cores}",
        "",
        f"{'':30}{'alone':>9}" + "".join(f"{mode:>9}" for mode in modes),
    ]
    for name, model in NAMES.items():
        for dtype, layer in measured.steps.items():
            work = Work(model, layer * model.layers, BATCH * LENGTH, measured.cores)
            shares = [estimate_share(work, SENT[mode], measured.link, measured.ranks) for mode in modes]
            cells = "".join(f"{share:>9.0%}" for share in shares)
            lines.append(f"{f'{name}, {dtype}':30}{work.step:>7.2f} s{cells}")
    return "\n".join(lines)
