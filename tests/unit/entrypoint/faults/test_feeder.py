"""A worker of a DataLoader without room in shared memory ends; that a training ends then is a test of a cluster."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from entrypoint.faults import feeder
from entrypoint.faults.words import Place, explain

FULL = "unable to allocate shared memory(shm) for file </torch_12_34>: No space left on device (28)"
TOO_MANY = "unable to open shared memory object </torch_12_34> in read-write mode: Too many open files (24)"


class Queue:
    """A queue like that of multiprocessing."""

    def __init__(self) -> None:
        self.ends: list[tuple[int, int]] = []
        self.told: list[tuple[BaseException, object]] = []
        kind: Any = type("Kind", (), {"_on_queue_feeder_error": staticmethod(lambda *words: self.told.append(words))})
        feeder.arm(kind, lambda *words: self.ends.append(words))
        self.kind = kind


@pytest.mark.parametrize(
    ("text", "worker", "ends"),
    [
        (FULL, SimpleNamespace(_worker_info="this one"), True),
        (FULL.replace("allocate shared memory(shm) for", "write to"), SimpleNamespace(_worker_info="this one"), True),
        (TOO_MANY, SimpleNamespace(_worker_info="this one"), False),
        ("No space left on device", SimpleNamespace(_worker_info="this one"), False),
        (FULL, SimpleNamespace(_worker_info=None), False),
        (FULL, SimpleNamespace(), False),
        (FULL, None, False),
    ],
)
def test_only_a_worker_ends_and_only_without_shared_memory(
    monkeypatch: pytest.MonkeyPatch, text: str, worker: object, ends: bool
) -> None:
    monkeypatch.setitem(sys.modules, feeder.WORKER, worker)
    queue, error = Queue(), RuntimeError(text)

    queue.kind._on_queue_feeder_error(error, "a batch")

    assert queue.told == [(error, "a batch")]
    assert queue.ends == ([(os.getpid(), signal.SIGBUS)] if ends else [])


@pytest.mark.parametrize("verb", ["allocate shared memory(shm) for", "write to", "mmap 8 bytes from"])
def test_what_ends_a_worker_is_explained_below_the_traceback(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setitem(sys.modules, feeder.WORKER, SimpleNamespace(_worker_info="this one"))
    error = RuntimeError(FULL.replace("allocate shared memory(shm) for", verb))
    found = explain(error, Place({}, lambda path: None, lambda path: None, list))

    assert feeder.is_lost(error, sys.modules)
    assert found is not None and found.fact.startswith("no shared memory is left")


def test_the_queues_of_python_are_armed_and_say_what_they_said(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.find_spec("multiprocessing.queues")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    feeder.change(module)

    try:
        raise RuntimeError("cannot pickle")
    except RuntimeError as error:
        module.Queue._on_queue_feeder_error(error, "a batch")
    assert "tell_and_end" in module.Queue._on_queue_feeder_error.__qualname__
    assert capsys.readouterr().err.endswith("RuntimeError: cannot pickle\n")
