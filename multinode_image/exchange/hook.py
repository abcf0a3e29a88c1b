"""The communication hook of a DistributedDataParallel: which parts of buckets are exchanged how, and in which order.

DDP hands over a bucket of gradients as soon as a backward pass has filled it, on all ranks in one order. Every
collective is issued from here, by the thread of that pass: what a bucket needs after its first one when MAX_AHEAD
others have come, the rest at the last bucket. A rank that waits there keeps the network busy with those that it has
issued. What needs only one is waited for at the end, as in plain DDP: all else would be computed later. Torch's
callbacks would come in another order on each rank, and gloo knows collectives by their order alone.
"""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from multinode_image.exchange import codecs
from multinode_image.exchange.codecs import (
    MORE,
    Ranks,
    Transfer,
    average,
    average_low,
    average_rows,
    average_shares,
    count_bytes,
)
from multinode_image.exchange.origins import Agreement, Fixed, Origins, Piece, list_pieces
from multinode_image.printing.streams import print_note
from multinode_image.tuning.gradients import BF16, FLOAT32, INT8, VARIABLE, describe_sent


def count_waiting(parallel: Any, seen: Any) -> None:
    """Count from now on; seen: as in gradients.py. Torch before 2.0 does not tell one pass from another."""
    number = getattr(torch._C, "_current_graph_task_id", None)
    if number is None:
        return
    engine, passes = torch.autograd.Variable._execution_engine, [-1]

    def prepare(_: object) -> None:
        if passes[-1] != number():
            passes[-1] = number()
            engine.queue_callback(start)

    def start() -> None:
        began = time.perf_counter()
        engine.queue_callback(lambda: stop(began))

    def stop(began: float) -> None:
        seen.waited = (seen.waited or 0.0) + time.perf_counter() - began

    for parameter in parallel.parameters():
        if parameter.requires_grad:
            parameter.register_hook(prepare)


# The communication hook of a DistributedDataParallel: which parts of buckets are exchanged how, and in which order.
#
# DDP hands over a bucket of gradients as soon as a backward pass has filled it, on all ranks in one order. Every
# collective is issued from here, by the thread of that pass: what a bucket needs after its first one when MAX_AHEAD
# others have come, the rest at the last bucket. A rank that waits there keeps the network busy with those that it has
# issued. What needs only one is waited for at the end, as in plain DDP: all else would be computed later. Torch's
# callbacks would come in another order on each rank, and gloo knows collectives by their order alone.

LEAST = 4 << 20  # bytes of an embedding whose rows are looked at: a smaller one is no worse than other weights
MAX_AHEAD = 2  # buckets that are on their way before the second collective of one is issued
# Ranks from which on a sum in bfloat16 would round so often that shares are summed in float32.
MANY = 8
# The first step tells DDP the order of its buckets; int8 begins in the second one, and all are alike from the third on.
REGULAR = 3


class Started(NamedTuple):
    """A transfer, and whether it may issue another collective."""

    transfer: Transfer
    more: bool


class Exchange:
    """The hook of one DistributedDataParallel, and what it keeps from step to step."""

    def __init__(self, parallel: Any, choice: str, seen: Any) -> None:
        """Take a model; seen: as in gradients.py."""
        self.parallel, self.choice, self.seen = weakref.proxy(parallel), choice, seen
        self.tables = find_tables(parallel.module)
        self.agreement = Fixed(choice == BF16) if choice else Agreement(list_ids(parallel), seen.watch(Origins))
        self.steps = self.total_bytes = 0
        self.memories: dict[tuple[int, int], Any] = {}
        self.in_progress: list[list[Started]] = []
        self.futures: list[Any] = []
        # What the script has registered since: a reducer takes one hook only, which is this one.
        self.successor: Callable[[Any], Any] | None = None

    def __call__(self, _: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Exchange a bucket as we do, or as the script wants it."""
        return self.successor(bucket) if self.successor else self.exchange(bucket)

    @torch.no_grad()
    def exchange(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Begin to exchange a bucket; at the last one of a pass wait for all."""
        if bucket.index() == 0:
            self.begin()
        self.futures.append((torch.futures.Future(), bucket.buffer()))
        self.total_bytes += count_bytes(bucket.buffer())
        self.in_progress.append(advance([Started(transfer, MORE) for transfer in self.list_transfers(bucket)]))
        if len(self.in_progress) > MAX_AHEAD:
            self.in_progress[-1 - MAX_AHEAD] = advance(self.in_progress[-1 - MAX_AHEAD])
        future = self.futures[-1][0]
        if bucket.is_last():
            self.end()
        return future

    def begin(self) -> None:
        """Begin a backward pass; one that failed may have left something."""
        parallel, self.ranks = self.parallel, Ranks(self.parallel.process_group)
        if parallel._join_config.enable and not getattr(parallel, "_divide_by_initial_world_size", True):
            remedy = f"join(), or export {VARIABLE}=off"
            raise RuntimeError(f"join(divide_by_initial_world_size=False) needs another way of exchange; try: {remedy}")
        self.agreement.ask(self.ranks.group, joined=parallel._join_config.enable)
        self.total_bytes, self.in_progress, self.futures = 0, [], []

    def end(self) -> None:
        """Wait for all that is on its way, in its order, and hand it over."""
        began = time.perf_counter()
        left = [transfer for started in self.in_progress for transfer in started]
        while left := advance(left, finish=True):
            pass
        for future, buffer in self.futures:
            future.set_result(buffer)
        self.in_progress, self.futures = [], []
        in_bf16 = self.agreement.conclude()
        self.seen.sent = self.choice or (BF16 if in_bf16 else FLOAT32)
        self.seen.waited = (self.seen.waited or 0.0) + time.perf_counter() - began
        self.steps += 1
        if self.steps == REGULAR and self.ranks.rank == 0:
            usual = 2 * (self.ranks.size - 1) * self.total_bytes // self.ranks.size
            said = describe_sent(self.seen.sent, len(self.tables), self.ranks.sent, usual)
            if said:
                print_note(said)

    def list_transfers(self, bucket: Any) -> Iterator[Transfer]:
        """Yield what exchanges the parts of a bucket: embeddings one by one, and all that is between them.

        What is not understood goes as a whole, as DDP would send it.
        """
        pieces = list_pieces(bucket)
        if pieces is None:
            yield average(bucket.buffer(), self.ranks)
            return
        between: list[Piece] = []
        for piece in pieces:
            if id(piece.parameter) in self.tables and piece.gradient.is_contiguous():
                yield from self.send_between(bucket, between)
                between = []
                yield self.send_rows(bucket, piece)
            else:
                between.append(piece)
        yield from self.send_between(bucket, between)

    def send_rows(self, bucket: Any, piece: Piece) -> Transfer:
        """Exchange an embedding."""
        table, ids = piece.gradient, [id(piece.parameter)]
        in_bf16 = table.dtype is torch.float32 and self.agreement.expects(ids)
        return average_rows(
            table.flatten(1),
            self.ranks,
            torch.bfloat16 if in_bf16 else table.dtype,
            lambda: self.send(bucket, [piece]),
            lambda: not in_bf16 or self.agreement.holds(ids),
        )

    def send_between(self, bucket: Any, between: Sequence[Piece]) -> Iterator[Transfer]:
        """Exchange the gradients between two embeddings, which lie side by side: those together that go in one type."""
        for _, alike in itertools.groupby(between, lambda piece: self.agreement.expects([id(piece.parameter)])):
            yield self.send(bucket, list(alike))

    def send(self, bucket: Any, pieces: Sequence[Piece]) -> Transfer:
        """Exchange gradients that lie side by side in a bucket as it was chosen."""
        start, end, ids = pieces[0].start, pieces[-1].end, [id(piece.parameter) for piece in pieces]
        name, part, length, key = self.choice, bucket.buffer()[start:end], end - start, (bucket.index(), start)
        if part.dtype is not torch.float32 or (name == INT8 and not self.steps):
            return average(part, self.ranks)
        if name == INT8:
            memory = self.recall((*key, length), lambda: codecs.Memory(length, self.ranks.size))
            return codecs.average_eight_bits(part, self.ranks, memory)
        if not self.agreement.expects(ids):
            return average(part, self.ranks)
        size, exchange = self.ranks.size, average_low if self.ranks.size < MANY else average_shares
        shape = (length,) if size < MANY else (2, size, -(-length // size))
        scratch = self.recall((*key, shape), lambda: torch.zeros(shape, dtype=torch.bfloat16))
        return exchange(part, self.ranks, scratch, lambda: self.agreement.holds(ids))

    def recall(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the memory of a part, made anew where DDP has changed its buckets."""
        place, shape = key[:2], key[2:]
        memory = self.memories.get(place)
        if memory is None or memory[0] != shape:
            memory = self.memories[place] = (shape, make())
        return memory[1]


def list_ids(module: Any) -> list[int]:
    """Return the ids of the parameters of a module, in their order."""
    return [id(parameter) for parameter in module.parameters()]


def advance(transfers: Sequence[Started], *, finish: bool = False) -> list[Started]:
    """Let transfers go on that have a collective to issue, or, to finish, all; return those that have not ended."""
    left = []
    for started in transfers:
        more = next(started.transfer, None) if started.more or finish else started.more
        if more is not None:
            left.append(Started(started.transfer, more))
    return left


def find_tables(module: Any) -> set[int]:
    """Return the ids of the weights of large embeddings.

    Left out are those that modules of another kind use too: all their rows have gradients. A sparse gradient has only
    its rows anyway.
    """
    tables: set[int] = set()
    others: set[int] = set()
    for layer in module.modules():
        is_table = hasattr(layer, "num_embeddings") and not getattr(layer, "sparse", False)
        for weight in layer.parameters(recurse=False):
            (tables if is_table and weight.dim() > 1 and count_bytes(weight) >= LEAST else others).add(id(weight))
    return tables - others
