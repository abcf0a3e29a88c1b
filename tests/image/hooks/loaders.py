"""In which order examples come, and what becomes of the workers that load them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing import queues
from typing import Any

import pytest
import torch
from accelerate import data_loader
from torch.utils.data import DataLoader
from torch.utils.data._utils import worker
from transformers import trainer_pt_utils
from transformers.trainer_pt_utils import LengthGroupedSampler

from multinode_image.hooks.data import lost_batch, order

LENGTHS = [4, 9, 2, 7, 5, 8, 1, 3, 6, 11]


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give back what hooks change."""
    monkeypatch.setattr(LengthGroupedSampler, "set_epoch", None, raising=False)
    changed = [
        (LengthGroupedSampler, "__iter__"), (data_loader.DataLoaderShard, "set_epoch"), (worker, "_worker_loop"),
        (queues.Queue, "_on_queue_feeder_error"),
    ]  # fmt: skip
    for owner, name in changed:
        monkeypatch.setattr(owner, name, vars(owner)[name])


def sample(seed: int, **options: Any) -> Any:
    torch.manual_seed(seed)
    return LengthGroupedSampler(2, lengths=LENGTHS, **options)


def draw(sampler: Any) -> list[int]:
    """Draw an epoch; what else the process draws in it is its own matter."""
    drawn = list(sampler)
    assert sorted(drawn) == list(range(len(LENGTHS)))
    torch.rand(len(drawn))
    return drawn


def test_ranks_draw_one_order_for_an_epoch_whatever_else_they_draw() -> None:
    usual = draw(sample(0, generator=torch.Generator().manual_seed(1)))
    order.draw_alike(trainer_pt_utils)
    one = sample(7)
    epochs = [draw(one) for _ in range(3)]
    other = sample(7)
    torch.rand(5)

    assert one.generator is None and len(set(map(tuple, epochs))) == 3
    assert [draw(other), draw(other)] == epochs[:2]
    torch.manual_seed(8)  # between epochs
    assert draw(other) == epochs[2]
    other.set_epoch(1)
    assert [draw(other), draw(other)] == epochs[1:]
    assert draw(sample(8)) != epochs[0]
    assert draw(sample(0, generator=torch.Generator().manual_seed(1))) == usual
    last = sample(-1)  # the largest one: torch takes none after it
    assert draw(last) != draw(last) == draw(sample(0))


@pytest.mark.parametrize("hooked", [True, False])
def test_every_sampler_below_a_loader_knows_its_epoch(hooked: bool) -> None:
    order.draw_alike(trainer_pt_utils)
    if hooked:
        order.tell_epoch(data_loader)
    sampler = sample(0)
    loader = DataLoader(list(range(len(LENGTHS))), batch_size=2, sampler=sampler)  # type: ignore[var-annotated,unused-ignore]
    shard = data_loader.prepare_data_loader(loader, num_processes=2, process_index=0, put_on_device=False)
    skipped = data_loader.skip_first_batches(shard, 1)

    told = []
    for epoch, level in enumerate((shard, skipped), 1):
        level.set_epoch(epoch)
        told.append(getattr(sampler, order.EPOCH, None))
        assert level.iteration == epoch

    assert told == ([1, 2] if hooked else [1, 1])  # accelerate looks two levels deep


def name_group(_: object) -> int:
    return os.getpgrp()


@pytest.mark.parametrize("apart", [True, False])
def test_a_worker_is_out_of_the_group_that_signals_reach(apart: bool) -> None:
    if apart:
        lost_batch.stay_apart(worker)

    (group,) = DataLoader([0], num_workers=1, collate_fn=name_group, multiprocessing_context="fork")

    assert (group != os.getpgrp()) is apart


@pytest.mark.parametrize("lost", [True, False])
def test_a_worker_that_loses_a_batch_ends_and_who_is_none_goes_on(lost: bool) -> None:
    lost_batch.watch_queues(queues)
    batch: Any = (lambda: None) if lost else "a batch"
    queue: Any = multiprocessing.Queue()
    queue.put(batch)
    queue.close()
    queue.join_thread()

    loader = DataLoader([0], num_workers=1, collate_fn=lambda _: batch, timeout=20, multiprocessing_context="fork")
    if lost:
        with pytest.raises(RuntimeError, match=r"killed by signal|exited unexpectedly"):
            list(loader)
    else:
        assert list(loader) == [batch]


@pytest.mark.parametrize(
    ("is_worker", "text", "sent"),
    [
        (True, "/torch_1>: No space left on device (28)", signal.SIGBUS),
        (True, "Too many open files", signal.SIGKILL),
        (False, "No space left on device", None),
    ],
)
def test_a_worker_ends_by_a_signal_that_torch_knows(
    is_worker: bool, text: str, sent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = list[tuple[int, int]]()
    if is_worker:
        monkeypatch.setattr(worker, "_worker_info", worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=[0]))

    lost_batch.end_worker(RuntimeError(text), sys.modules, lambda *words: ends.append(words))

    assert ends == ([(os.getpid(), sent)] if sent else [])
