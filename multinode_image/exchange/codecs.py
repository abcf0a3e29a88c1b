"""What is sent of gradients: each function exchanges a part of them and leaves the mean of all ranks in its place.

Such a function is a generator: it issues a collective, yields whether another one may follow, and waits for it when it
goes on, so that whoever drives several of them (hook.py) issues all collectives in one order on all ranks. What ranks
get is equal to the last bit: sums are the backend's, which every rank receives, or made of received parts in the order
of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

# A part in transfer: it goes on when its collective is to be waited for. What it yields is alike on all ranks.
Transfer = Iterator[bool]
LAST, MORE = False, True


class Ranks:
    """The ranks of a process group, by its collectives, and how many bytes this one has sent to others by them."""

    def __init__(self, group: Any) -> None:
        """Take the group."""
        self.group, self.size, self.rank = group, dist.get_world_size(group), dist.get_rank(group)
        self.sent = 0

    def sum(self, tensor: Any) -> Any:
        """Sum a tensor in its place."""
        self.sent += 2 * (self.size - 1) * count_bytes(tensor) // self.size
        return dist.all_reduce(tensor, group=self.group, async_op=True)

    def gather(self, tensor: Any, parts: Sequence[Any]) -> Any:
        """Collect the tensors of all ranks in parts."""
        self.sent += (self.size - 1) * count_bytes(tensor)
        return dist.all_gather(list(parts), tensor, group=self.group, async_op=True)

    def swap(self, parts: Any, received: Any) -> Any:
        """Send to each rank its part, and collect those for this one; both have a first dimension of ranks."""
        self.sent += (self.size - 1) * count_bytes(parts) // self.size
        return dist.all_to_all_single(received, parts, group=self.group, async_op=True)


def count_bytes(tensor: Any) -> int:
    """Return how many bytes a tensor has."""
    return int(tensor.numel() * tensor.element_size())


def average(part: Any, ranks: Ranks) -> Transfer:
    """Exchange a part by a sum, of the same numbers as DDP does."""
    work = ranks.sum(part.mul_(1 / ranks.size))
    yield LAST
    work.wait()


def average_low(part: Any, ranks: Ranks, scratch: Any, holds: Callable[[], bool]) -> Transfer:
    """Exchange a part by a sum in the type of scratch, a tensor as long as the part.

    holds: whether that was right, asked when the sum has come; where it was not, the part goes again, as it was.
    """
    work = ranks.sum(scratch.copy_(part.mul_(1 / ranks.size)))
    yield LAST
    work.wait()
    if holds():
        part.copy_(scratch)
    else:
        work = ranks.sum(part)
        yield LAST
        work.wait()


def average_shares(part: Any, ranks: Ranks, scratch: Any, holds: Callable[[], bool]) -> Transfer:
    """Exchange a part in the type of scratch, and sum it in that of the part: each rank sums a share for all.

    As much is sent as by a sum in the type of scratch, which rounds at each rank that it passes. scratch: two times
    ranks times a share, of which the part fills a half but for its end; holds: as in average_low.
    """
    sent, received = scratch
    sent.view(-1)[: part.numel()] = part
    work = ranks.swap(sent, received)
    yield MORE
    work.wait()
    share = torch.zeros_like(received[0], dtype=part.dtype)
    for other in received:  # in the order of ranks
        share.add_(other)
    work = ranks.gather(sent[ranks.rank].copy_(share.div_(ranks.size)), list(received))
    yield LAST
    work.wait()
    if holds():
        part.copy_(received.view(-1)[: part.numel()])
    else:
        yield from average(part, ranks)


def average_rows(
    table: Any, ranks: Ranks, dtype: Any, otherwise: Callable[[], Transfer], holds: Callable[[], bool]
) -> Transfer:
    """Exchange the rows of a matrix that are not zero, in a type; by `otherwise` where that is not less.

    A row counts by its bits, so that a NaN does, and -0.0. All ranks know the same numbers, and so do the same. holds:
    whether the type was right, as in average_low.
    """
    rows = find_rows(table)
    count, counts = torch.tensor([len(rows)]), list(torch.zeros(ranks.size, dtype=torch.long).split(1))
    work = ranks.gather(count, counts)
    yield MORE
    work.wait()
    lengths = [int(number) for number in counts]
    longest = max(lengths)
    if ranks.size * longest >= 2 * len(table):  # what a sum sends: two halves of all
        yield from otherwise()
        return
    values, places, packed = pack(longest, table.shape[1], dtype)
    values[: len(rows)] = table[rows].div_(ranks.size)
    places[: len(rows)] = rows
    received = [torch.empty_like(packed) for _ in lengths]
    work = ranks.gather(packed, received)
    yield LAST
    work.wait()
    if not holds():
        yield from average_rows(table, ranks, table.dtype, otherwise, lambda: True)
        return
    table[rows] = 0
    for part, length in zip(received, lengths):
        values, places, _ = pack(longest, table.shape[1], dtype, part)
        table.index_add_(0, places[:length].long(), values[:length].to(table.dtype))


def find_rows(table: Any) -> Any:
    """Return the numbers of the rows of a matrix that have a bit set."""
    size = table.element_size()
    whole = table.shape[1] * size % 8 == 0 and table.storage_offset() * size % 8 == 0
    bits = table.view(torch.int64 if whole else {2: torch.int16, 4: torch.int32, 8: torch.int64}[size])
    return bits.ne(0).any(1).nonzero().flatten()


def pack(count: int, width: int, dtype: Any, memory: Any = None) -> tuple[Any, Any, Any]:
    """Return rows of values, their places, and the bytes that hold both: new ones of zero, or those of memory."""
    size = count * width * torch.empty(0, dtype=dtype).element_size()
    end = -(-size // 4) * 4
    if memory is None:
        memory = torch.zeros(end + 4 * count, dtype=torch.uint8)
    return memory[:size].view(dtype).view(count, width), memory[end:].view(torch.int32), memory


# Gradients as 8 bits: each rank sums a share of them in float32, and what rounding takes goes into the next step.

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
    for values, eight, scale in zip(*(tensor.split(AT_ONCE) for tensor in (blocks, numbers, scales))):
        rounded = values.div(scale.clamp(min=torch.finfo(torch.float32).tiny)).round_()
        eight.copy_(rounded)
        values.addcmul_(rounded, scale, value=-1)
    if not scales.isfinite().all():
        blocks.nan_to_num_(0.0, 0.0, 0.0)


def add_decoded(packed: Any, sums: Any, factor: float = 1.0) -> None:
    """Add numbers of 8 bits, times a factor, to sums."""
    numbers, scales = split(packed)
    for eight, scale, total in zip(*(tensor.split(AT_ONCE) for tensor in (numbers, scales, sums))):
        total.addcmul_(eight.to(torch.float32), scale, value=factor)
