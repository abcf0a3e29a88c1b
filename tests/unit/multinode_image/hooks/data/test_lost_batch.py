"""Which process ends that has lost a batch."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from multinode_image.hooks.data.lost_batch import WORKER, end_worker


@pytest.mark.parametrize(
    ("worker", "text", "sent"),
    [
        (SimpleNamespace(_worker_info="this one"), "/torch_1>: No space left on device (28)", signal.SIGBUS),
        (SimpleNamespace(_worker_info="this one"), "Too many open files", signal.SIGKILL),
        (SimpleNamespace(_worker_info=None), "No space left on device", None),
        (None, "No space left on device", None),
    ],
)
def test_only_a_worker_of_a_dataloader_ends(worker: object, text: str, sent: int | None) -> None:
    ends: list[tuple[int, int]] = []

    end_worker(RuntimeError(text), {WORKER: worker}, lambda *words: ends.append(words))

    assert ends == ([(os.getpid(), sent)] if sent else [])
