"""Gradients as 8 bits: each rank sums a share of them in float32, and what rounding takes goes into the next step."""

from typing import Any

import torch

from multinode_image.exchange.codecs import LAST, MORE, Ranks, Transfer

BLOCK = 512  # numbers with one scale, of float32: 8.06 bits each
AT_ONCE = 512  # blocks that are worked on at a time: a megabyte stays in a processor's cache
LARGEST = 127.0


class Memory:
    """What a part of a bucket needs from step to step: float32 for each number and, of a share of them, once more."""

    def __init__(self, length: int, ranks: int) -> None:
        """Reserve it; length: the numbers of the part, of which each rank gets a share in whole blocks."""
        self.blocks = -(-length // (BLOCK * ranks))
        self.kept = torch.zeros(ranks, self.blocks, BLOCK)
        self.kept_of_share = torch.zeros(self.blocks, BLOCK)
        self.sent, self.received = (torch.zeros(ranks, self.blocks * (BLOCK + 4), dtype=torch.int8) for _ in range(2))


def average_eight_bits(part: Any, ranks: Ranks, memory: Memory) -> Transfer:
    """Exchange a part: shares to their ranks, and their means to all."""
    whole = memory.kept.view(-1)[: part.numel()]
    whole.add_(part)
    for blocks, packed in zip(memory.kept, memory.sent):
        encode(blocks, packed)
    work = ranks.swap(memory.sent, memory.received)
    yield MORE
    work.wait()
    share, packed = memory.kept_of_share, memory.sent[ranks.rank]
    for received in memory.received:  # in the order of ranks
        add_decoded(received, share, 1 / ranks.size)
    encode(share, packed)
    work = ranks.gather(packed, list(memory.received))
    yield LAST
    work.wait()
    means = torch.zeros(ranks.size, memory.blocks, BLOCK)
    for received, mean in zip(memory.received, means):
        add_decoded(received, mean)
    part.copy_(means.view(-1)[: part.numel()])


def split(packed: Any) -> tuple[Any, Any]:
    """Return the numbers (int8, blocks x BLOCK) and the scales (float32, blocks x 1) of a tensor of bytes."""
    blocks = len(packed) // (BLOCK + 4)
    return packed[: blocks * BLOCK].view(blocks, BLOCK), packed[blocks * BLOCK :].view(torch.float32).view(blocks, 1)


def encode(blocks: Any, packed: Any) -> None:
    """Write numbers as 8 bits, and leave in their place what that took from them.

    A block with a number that is not finite becomes NaN as a whole, and leaves nothing: the next step is a new one.
    """
    numbers, scales = split(packed)
    torch.div(blocks.abs().amax(1, keepdim=True), LARGEST, out=scales)
    for values, eight, scale in zip(*(each.split(AT_ONCE) for each in (blocks, numbers, scales))):
        rounded = values.div(scale.clamp(min=torch.finfo(torch.float32).tiny)).round_()
        eight.copy_(rounded)
        values.addcmul_(rounded, scale, value=-1)
    if not scales.isfinite().all():
        blocks.nan_to_num_(0.0, 0.0, 0.0)


def add_decoded(packed: Any, sums: Any, factor: float = 1.0) -> None:
    """Add numbers of 8 bits, times a factor, to sums."""
    numbers, scales = split(packed)
    for eight, scale, each in zip(*(each.split(AT_ONCE) for each in (numbers, scales, sums))):
        each.addcmul_(eight.to(torch.float32), scale, value=factor)
