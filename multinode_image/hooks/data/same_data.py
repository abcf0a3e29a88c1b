"""Compare once what ranks train on: the same rows in the same order, of which each takes another part.

Ranks share their data by positions (DistributedSampler, accelerate and so the Trainer): that holds only if all have the
same rows. An older copy on one node has more batches or fewer, and the epoch ends in a collective that some ranks never
call. A split or a shuffle without a seed is another one on each rank: rows of the test are trained on elsewhere. And
ranks that share nothing, each with a shuffle of one seed, take the same batches: more machines, and no gain.

What is compared is sent through the job's store (messenger.py), without a collective and without a wait. A difference
ends the rank at its next step, or a while later where it waits for another one by then.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import zlib
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from multinode_image.hooks.groups.waits import find_job
from multinode_image.hooks.job.messenger import Message, Ring
from multinode_image.hooks.job.one_job import Fault, count_meant, leave
from multinode_image.hooks.job.reason import leave_reason
from multinode_image.hooks.job.spot import place_script
from multinode_image.hooks.model.one_model import know, say
from multinode_image.settings import APART

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

GRACE = 10.0  # seconds until a rank is ended that makes no step
ROWS = 16  # of a list, by which splits of it are told apart
LOOKS, ELEMENTS = 3, 1024  # batches of a model that are compared, and the elements of each tensor of them
MEANT = f"or {APART}=1 where that is meant"
SEEDS = {
    "random_split": "random_split(..., generator=torch.Generator().manual_seed(42))",
    "train_test_split": "train_test_split(..., seed=42)",
    "shuffle": "shuffle(seed=42)",
    "sklearn's train_test_split": "train_test_split(..., random_state=42)",
}
SAMPLER = (
    "DataLoader(data, sampler=DistributedSampler(data)) without shuffle=True, and sampler.set_epoch(epoch) before each "
    "epoch"
)


class Known:
    """What this process has found so far.

    ordinals: how often something was compared at a line; unsent: what waits for a store; shares: whether data are
    shared by positions; shuffled: what is wrong then; equal: rank -> of how many batches it had the same.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.ordinals: dict[str, int] = {}
        self.unsent: list[Note] = []
        self.shares = False
        self.shuffled: Fault | None = None
        self.equal: dict[int, int] = {}


class Note(NamedTuple):
    """What ranks compare under a key, and who gets what each other rank says, by its number."""

    key: str
    value: Any
    hear: Callable[[Mapping[int, Any]], None]


KNOWN = Known()


def compare(name: str, value: Any, hear: Callable[[Mapping[int, Any]], None]) -> None:
    """Send a value to other ranks, as what was found at this line of the script; hear gets those of others."""
    state = know()
    if state.off or state.is_child:
        return
    key = f"{name}/{place_script(sys._getframe(1))}"
    KNOWN.ordinals[key] = KNOWN.ordinals.get(key, 0) + 1
    KNOWN.unsent.append(Note(f"{key}/{KNOWN.ordinals[key]}", value, hear))
    job = find_job(os.environ)
    if job is None or job.size < 2:  # no group has formed yet
        return
    ring = Ring(job.host, job.port, f"multinode/{job.attempt}/{job.size}/data", job.rank, job.size)
    while KNOWN.unsent:
        note = KNOWN.unsent.pop(0)
        state.send(Message(ring, note.key, json.dumps(note.value).encode(), functools.partial(deliver, ring, note)))


def deliver(ring: Ring, note: Note, texts: Sequence[bytes]) -> None:
    """Hand what others have said to who has asked."""
    note.hear(dict(zip(ring.others, map(json.loads, texts))))


def end_soon(fault: Fault) -> None:
    """Let this process end at its next step, or after a while where it waits in a collective."""
    state = know()
    state.fault = state.fault or fault
    timer = threading.Timer(GRACE, end_now, [state.fault])
    timer.daemon = True
    timer.start()


def end_now(fault: Fault) -> None:
    """End this process from another thread than the first."""
    leave_reason(fault, os.environ)
    leave(fault)


def compare_rows(dataset: Any, loader: Any) -> None:
    """Compare how many rows and batches there are; loader: what gives this rank its share of them."""
    KNOWN.shares = True
    if KNOWN.shuffled is not None:
        end_soon(KNOWN.shuffled)
    with contextlib.suppress(Exception):  # data without a length
        mine, place = [len(dataset), len(loader)], place_script(sys._getframe(1))
        compare("rows", mine, functools.partial(judge_rows, mine, place))


def judge_rows(mine: Sequence[int], place: str, others: Mapping[int, Sequence[int]]) -> None:
    """End where another rank has more rows or fewer, and so batches; say it where only its rows are.

    Other batches of as many rows are meant: accelerate has them without even_batches.
    """
    unlike = {rank: count for rank, count in others.items() if count[0] != mine[0]}
    if not unlike:
        return
    rank = min(unlike, key=lambda rank: unlike[rank][1] == mine[1])  # one with other batches, if there is one
    value = f"{mine[0]:,} on rank {os.environ.get('RANK')} and {unlike[rank][0]:,} on rank {rank}, at {place}"
    remedy = f"the same files on all nodes, and the same selection of rows on all ranks; {MEANT}"
    fault = Fault("ranks share data of which they have not the same number of rows", value, remedy)
    if unlike[rank][1] != mine[1]:
        end_soon(fault)
    elif os.environ.get("RANK") == "0":
        say(fault)


def compare_order(name: str, chosen: Sequence[bytes | None]) -> None:
    """Compare what a split or a shuffle without a seed has chosen, part by part, if that is known."""
    if all(part is not None for part in chosen):
        place = place_script(sys._getframe(1))
        digest = [zlib.crc32(part) for part in chosen if part is not None]
        compare(name, digest, functools.partial(judge_order, name, place, digest))


def judge_order(name: str, place: str, digest: Sequence[int], others: Mapping[int, Sequence[int]]) -> None:
    """End where another rank has split its data in another way, or has shuffled what ranks share by positions."""
    unlike = [rank for rank, other in others.items() if list(other) != list(digest)]
    if not unlike:
        return
    value = f"{name} without a seed at {place}, on ranks {os.environ.get('RANK')} and {unlike[0]}"
    fault = Fault("data differ between ranks, which were split or shuffled by each for itself", value,
                  f"{SEEDS[name]}, the same on all ranks; {MEANT}")  # fmt: skip
    if name == "shuffle" and not KNOWN.shares:
        KNOWN.shuffled = fault
    else:
        end_soon(fault)


def read_indices(dataset: Any) -> bytes | None:
    """Return which rows a dataset has of another one, of torch's Subset or of datasets; None where it does not say."""
    with contextlib.suppress(Exception):
        if hasattr(dataset, "indices"):
            return array("q", map(int, dataset.indices)).tobytes()
        return bytes(dataset._indices.column(0).to_numpy().tobytes())
    return None


def read_first(rows: Any) -> bytes | None:
    """Return the first rows of a list, an array or a table, as they are printed; None where that says nothing."""
    with contextlib.suppress(Exception):
        text = repr(rows[:ROWS])
        return None if " at 0x" in text else text.encode()
    return None


def watch_split(module: Any) -> None:
    """Look at splits without a generator of their own; module: torch.utils.data.dataset."""
    split = module.random_split

    @functools.wraps(split)
    def split_and_compare(dataset: Any, lengths: Any, *words: Any, **options: Any) -> Any:
        parts = split(dataset, lengths, *words, **options)
        if not words and "generator" not in options:
            compare_order("random_split", [*map(read_indices, parts)])
        return parts

    module.random_split = split_and_compare


def watch_datasets(module: Any) -> None:
    """Look at splits and shuffles without a seed; module: datasets.arrow_dataset."""
    for name, place in (("train_test_split", 4), ("shuffle", 0)):
        setattr(module.Dataset, name, choose_and_compare(name, place, getattr(module.Dataset, name)))


def choose_and_compare(name: str, place: int, choose: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a dataset that chooses rows, whose seed and generator have these places."""

    @functools.wraps(choose)
    def run(self: Any, *words: Any, **options: Any) -> Any:
        result = choose(self, *words, **options)
        given = [*words[place : place + 2], options.get("seed"), options.get("generator")]
        if options.get("shuffle", True) and all(value is None for value in given):
            parts = [*result.values()] if isinstance(result, dict) else [result]
            compare_order(name, [*map(read_indices, parts)])
        return result

    return run


def watch_lists(module: Any) -> None:
    """Look at splits of lists, arrays and tables without a seed; module: sklearn.model_selection._split."""
    split = module.train_test_split

    @functools.wraps(split)
    def split_and_compare(*arrays: Any, **options: Any) -> Any:
        parts = split(*arrays, **options)
        if options.get("random_state") is None and options.get("shuffle", True):
            compare_order("sklearn's train_test_split", [*map(read_first, parts[:2])])
        return parts

    module.train_test_split = split_and_compare


def watch_sampler(module: Any) -> None:
    """Look at the rows that ranks share; module: torch.utils.data.distributed."""
    kind = module.DistributedSampler
    make = kind.__init__

    @functools.wraps(make)
    def make_and_compare(self: Any, dataset: Any, *words: Any, **options: Any) -> None:
        make(self, dataset, *words, **options)
        if self.num_replicas == count_meant(os.environ):
            compare_rows(dataset, self)

    kind.__init__ = make_and_compare


def watch_loaders(module: Any) -> None:
    """Look at what accelerate, and so the Trainer, shares among ranks; module: accelerate.data_loader."""
    prepare = module.prepare_data_loader

    @functools.wraps(prepare)
    def prepare_and_compare(dataloader: Any, *words: Any, **options: Any) -> Any:
        prepared = prepare(dataloader, *words, **options)
        if not options.get("dispatch_batches"):  # else rank 0 alone reads
            compare_rows(dataloader.dataset, prepared)
        return prepared

    module.prepare_data_loader = prepare_and_compare


def watch_batches(module: Any) -> None:
    """Look at the first batches of each model that all ranks train; module: torch.nn.parallel.distributed."""
    kind = module.DistributedDataParallel
    make = kind.__init__

    @functools.wraps(make)
    def make_and_watch(self: Any, *words: Any, **options: Any) -> None:
        make(self, *words, **options)
        with contextlib.suppress(Exception):  # of a release without such hooks
            if self.process_group.size() == count_meant(os.environ) > 1:
                Batches(self)

    kind.__init__ = make_and_watch


class Batches:
    """The first batches of a model, as digests."""

    def __init__(self, model: Any) -> None:
        """Look at each batch before the model does."""
        self.seen: list[int] = []
        self.handle = model.register_forward_pre_hook(self.look, with_kwargs=True)

    def look(self, model: Any, words: Any, options: Any) -> None:
        """Take a batch that is trained on, and compare when there are some."""
        if not model.training or len(self.seen) == LOOKS:
            return
        with contextlib.suppress(Exception):  # of tensors that have no such bytes
            self.seen.append(digest_tensors((words, options)))
        if len(self.seen) == LOOKS:
            self.handle.remove()
            compare("batches", self.seen, functools.partial(judge_batches, self.seen))


def digest_tensors(values: Any) -> int:
    """Return a number for the tensors among some values."""
    digest = 0
    for tensor in list_tensors(values):
        part = tensor.detach().reshape(-1)[:ELEMENTS].contiguous()
        digest = zlib.crc32(part.view(sys.modules["torch"].uint8).numpy().tobytes(), digest)
    return digest


def list_tensors(values: Any) -> Iterator[Any]:
    """Yield the tensors in lists and tables."""
    if hasattr(values, "detach"):
        yield values
    elif hasattr(values, "values"):
        yield from list_tensors(list(values.values()))
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from list_tensors(value)


def judge_batches(seen: Sequence[int], others: Mapping[int, Sequence[int]]) -> None:
    """Say it where another rank has trained on the same batches; one batch all the time, as in a trial, is none."""
    same = [str(rank) for rank, other in others.items() if list(other) == list(seen)]
    if same and len(set(seen)) == len(seen) and os.environ.get("RANK") == "0":
        value = f"the first {len(seen)} of rank 0 are those of rank {', '.join(same[:4])}{', ...' * (len(same) > 4)}"
        say(Fault("ranks train on the same batches, so more of them bring nothing", value, SAMPLER))
