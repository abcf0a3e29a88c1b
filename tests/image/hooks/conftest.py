"""Ranks with gloo, which are forks of the process of a test; torch is imported when they start."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SECONDS = 20  # that a rank may take


class Done(NamedTuple):
    """What a function has returned in a rank, or its exit code, and what it has said."""

    result: Any
    said: str


def act_in_turn(acts: Sequence[Callable[[], Any]]) -> Iterator[Done]:
    """Run functions in a training that has computed nothing, one after the other."""
    from multinode_image.hooks.step import gradients

    for act in acts:
        gradients.SEEN = gradients.Seen()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                result = act()
            except SystemExit as ended:
                result = ended.code
        yield Done(result, said.getvalue())


def take_part(acts: Sequence[Callable[[], Any]], method: str, rank: int, size: int, end: Any) -> None:
    """Be a rank whose torch is watched as in the image; send what comes of it, or a traceback."""
    import torch.distributed as dist
    from torch.amp import autocast_mode
    from torch.nn.parallel import distributed

    from multinode_image.hooks.step import gradients

    try:
        dist.init_process_group("gloo", method, timedelta(seconds=SECONDS), size, rank)
        dist.barrier()  # a rank that ends while another one connects to it fails that one
        gradients.watch_parallel(distributed)
        gradients.watch_autocast(autocast_mode)
        end.send([*act_in_turn(acts)])
    except BaseException:
        end.send(traceback.format_exc())
    os._exit(0)


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import what a first pass imports, once for all ranks."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", f"file://{tmp_path_factory.mktemp('group')}/store", rank=0, world_size=1)
    DistributedDataParallel(torch.nn.Linear(1, 1))(torch.ones(1, 1)).sum().backward()
    dist.destroy_process_group()


@pytest.fixture
def run_ranks(tmp_path: Path, imported: None) -> Callable[..., list[list[Done]]]:
    """Return what runs functions in ranks, forks with what is changed here, and returns for each what all have done.

    method: by which the ranks meet, a file if none is named.
    """

    def run(*acts: Callable[[], Any], size: int = 2, method: str = "") -> list[list[Done]]:
        forks, results = multiprocessing.get_context("fork"), list[Any]()
        pipes = [forks.Pipe(duplex=False) for _ in range(size)]
        ranks = [
            forks.Process(target=take_part, args=(acts, method or f"file://{tmp_path}/store", rank, size, end))
            for rank, (_, end) in enumerate(pipes)
        ]
        for process in ranks:
            process.start()
        for source, _ in pipes:
            results.append(source.recv() if source.poll(2 * SECONDS) else "a rank is silent")
        for process in ranks:
            process.kill()  # a silent one, too: pytest would wait for it at its end
            process.join()
        assert not (failed := [result for result in results if isinstance(result, str)]), failed[0]
        return [list(of_ranks) for of_ranks in zip(*results, strict=True)]

    return run


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arguments of the Trainer be those of two ranks."""
    monkeypatch.setattr("transformers.TrainingArguments.world_size", 2)
