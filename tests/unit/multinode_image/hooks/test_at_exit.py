"""How a rank ends: what rank 0 says of its job, and which groups are kept; torch is made up."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from multinode_image.hooks import at_exit
from multinode_image.hooks.at_exit import (
    DISTRIBUTED,
    describe_job,
    end,
    keep_groups,
)
from multinode_image.hooks.job.one_job import Fault
from multinode_image.hooks.job.reason import FILE, read_reason
from multinode_image.settings import TRAINING

RANK_0 = {"RANK": "0", "WORLD_SIZE": "2", TRAINING: "7"}
APART, ONE = (
    "each of the 2 ranks has worked by itself",
    "worked as a group of 2 ranks, in which no optimizer has made a step",
)


def torch(size: int | None, made: str | None = "env://", **more: Any) -> Any:
    """Make up torch's module: size of the group that there is, and how the last one was made."""
    return SimpleNamespace(
        is_initialized=lambda: size is not None, get_world_size=lambda: size, _default_pg_init_method=made, **more
    )


def accelerate(processes: int) -> dict[str, Any]:
    kind = SimpleNamespace(_shared_state={"num_processes": processes})
    return {"accelerate.state": SimpleNamespace(PartialState=kind)}


@pytest.mark.parametrize(
    ("distributed", "others", "environ", "said"),
    [
        pytest.param(torch(2), {}, RANK_0, ONE, id="one job"),
        pytest.param(torch(None), {}, RANK_0, ONE, id="has destroyed its group"),
        pytest.param(torch(2), accelerate(2), RANK_0, ONE, id="by the Trainer"),
        pytest.param(torch(2), accelerate(1), RANK_0, APART, id="the Trainer did not use the group"),
        pytest.param(torch(None, None), {}, RANK_0, APART, id="no group"),
        pytest.param(torch(None, None), {}, {**RANK_0, TRAINING: "6"}, "", id="a process of the rank"),
        pytest.param(torch(None, "file:///x"), {}, RANK_0, "", id="a group made in another way, and destroyed"),
        pytest.param(torch(3, None), {}, RANK_0, "worked as a group of 3 ranks", id="as torch counts them"),
        pytest.param(torch(2), {}, {**RANK_0, "RANK": "1"}, "", id="another rank"),
        pytest.param(torch(1), {}, {**RANK_0, "WORLD_SIZE": "1"}, "", id="alone"),
        pytest.param(torch(None, None), {}, {TRAINING: "7"}, "", id="no rank, as torchrun's agent"),
        pytest.param(torch(None, None), {}, {**RANK_0, "MULTINODE_APART": "1"}, "", id="apart on purpose"),
    ],
)
def test_rank_0_says_whether_its_job_was_one(
    distributed: Any, others: Mapping[str, Any], environ: Mapping[str, str], said: str
) -> None:
    found = describe_job({DISTRIBUTED: distributed, **others}, environ, 7)

    assert found.startswith(said) and bool(found) == bool(said)


@pytest.mark.parametrize(("waited", "said"), [(None, ""), (19, ""), (21, ", waiting for gradients 21% of the time")])
def test_rank_0_says_how_long_it_has_waited(waited: int | None, said: str) -> None:
    gradients = SimpleNamespace(SEEN=SimpleNamespace(waited=waited))
    modules = {DISTRIBUTED: torch(2), "multinode_image.hooks.step.gradients": gradients}

    with mock.patch("time.monotonic", lambda: at_exit.BEGAN + 100):
        assert describe_job(modules, RANK_0, 7) == ONE + said


@pytest.mark.parametrize("where", ["_world", "_pg_map"])
@pytest.mark.parametrize(
    ("bindings", "backend", "kept"),
    [
        ("oneccl_bindings_for_pytorch", "ccl", 1),
        ("torch_ccl", "undefined", 1),  # a backend for each device
        ("torch_ccl", "gloo", 0),
        ("other", "undefined", 0),
    ],
)
def test_groups_of_oneccl_are_never_freed(where: str, bindings: str, backend: str, kept: int) -> None:
    group = object()
    table = {group: (backend, None)}
    distributed = SimpleNamespace(**{where: SimpleNamespace(pg_map=table) if where == "_world" else table})
    before = sys.getrefcount(group)

    keep_groups({DISTRIBUTED: distributed, bindings: object()})

    assert sys.getrefcount(group) == before + kept
    for _ in range(kept):
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(group))


@pytest.mark.parametrize(("size", "rests"), [(2, 1), (None, 0)])
def test_the_thread_of_a_group_has_time_to_drop_its_last_work(
    size: int | None, rests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delattr(sys, "last_value", raising=False)

    end({DISTRIBUTED: torch(size)}, {})

    assert len(slept) == rests and all(0.1 <= seconds <= 1 for seconds in slept)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_rank_that_was_ended_leaves_word_and_no_process_that_it_has_started(leaves: bool, tmp_path: Path) -> None:
    number = os.getpid() if leaves else 1
    path = tmp_path / "error.json"
    fault = Fault("this process trains by itself", "rank 1", "init_process_group")
    modules = {"multinode_image.hooks.job.one_job": SimpleNamespace(TOLD=[fault])}

    end(modules, {FILE: str(path), TRAINING: str(number)})

    assert path.exists() == leaves
    if leaves:
        assert read_reason(SimpleNamespace(message=json.loads(path.read_text())["message"])) == fault
