"""How a rank ends: what rank 0 says of its job, and which groups are kept; torch is made up."""

from __future__ import annotations

import ast
import ctypes
import json
import os
import signal
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
    VARIABLE,
    describe_job,
    describe_wait,
    end,
    is_agent,
    keep_groups,
    watch_agent,
)
from multinode_image.hooks.one_job import Fault
from multinode_image.hooks.reason import FILE, read_reason

RANK_0 = {"RANK": "0", "WORLD_SIZE": "2", VARIABLE: "7"}
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
        pytest.param(torch(None, None), {}, {**RANK_0, VARIABLE: "6"}, "", id="a process of the rank"),
        pytest.param(torch(None, "file:///x"), {}, RANK_0, "", id="a group made in another way, and destroyed"),
        pytest.param(torch(3, None), {}, RANK_0, "worked as a group of 3 ranks", id="as torch counts them"),
        pytest.param(torch(2), {}, {**RANK_0, "RANK": "1"}, "", id="another rank"),
        pytest.param(torch(1), {}, {**RANK_0, "WORLD_SIZE": "1"}, "", id="alone"),
        pytest.param(torch(None, None), {}, {VARIABLE: "7"}, "", id="no rank, as torchrun's agent"),
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
    modules = {DISTRIBUTED: torch(2), "multinode.gradients": SimpleNamespace(SEEN=SimpleNamespace(waited=waited))}

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


@pytest.mark.parametrize(
    ("cmdline", "is_one"),
    [
        (b"/usr/bin/python3\0/usr/bin/torchrun\0--nnodes\x002\0train.py\0", True),
        (b"python3\0-m\0torch.distributed.run\0train.py\0", True),
        (b"python3\0-u\0train.py\0--starter\0torchrun\0", False),
        (b"", False),
    ],
)
def test_an_agent_of_torchrun_is_known_by_its_command_line(cmdline: bytes, is_one: bool) -> None:
    assert is_agent(cmdline) is is_one


@pytest.mark.parametrize(
    ("children", "met", "said"), [("", [], True), ("", [2], False), ("12 13 ", [], False), (None, [], False)]
)
def test_an_agent_without_ranks_says_what_it_waits_for(
    children: str | None, met: list[int], said: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, "multinode.ending", SimpleNamespace(MET=met))
    task = tmp_path / "task" / str(os.getpid())
    task.mkdir(parents=True)
    if children is not None:
        (task / "children").write_text(children)

    watch_agent(tmp_path, "all need the same PET_NODE_RANK", seconds=0).join(60)

    assert ("PET_NODE_RANK" in capsys.readouterr().err) is said


@pytest.mark.parametrize(
    ("cmdline", "environ", "same"),
    [
        (b"torchrun\0--rdzv_id\x0018233\0--nnodes=2\0train.py\0", {}, "--rdzv_id 18233, --nnodes 2"),
        (b"torchrun\0--rdzv-endpoint\0node_0:29400\0train.py\0", {"PET_RDZV_ID": "7", "PET_RDZV_ENDPOINT": "other"},
         "PET_RDZV_ID=7, --rdzv-endpoint node_0:29400"),
        (b"torchrun\0train.py\0", {"PET_NNODES": "2", "PET_NODE_RANK": "0"}, "PET_NNODES=2"),
        (b"torchrun\0train.py\0", {}, "PET_NNODES"),
    ],
)  # fmt: skip
def test_an_agent_names_what_its_node_was_told(cmdline: bytes, environ: dict[str, str], same: str) -> None:
    assert f" All need the same {same}, and " in describe_wait(cmdline, environ)


@pytest.mark.parametrize(("size", "rests"), [(2, 1), (None, 0)])
def test_the_thread_of_a_group_has_time_to_drop_its_last_work(
    size: int | None, rests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delattr(sys, "last_value", raising=False)

    end({DISTRIBUTED: torch(size)}, {}, "/nowhere")

    assert len(slept) == rests and all(0.1 <= seconds <= 1 for seconds in slept)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_rank_that_was_ended_leaves_word_and_no_process_that_it_has_started(leaves: bool, tmp_path: Path) -> None:
    number = os.getpid() if leaves else 1
    path = tmp_path / "error.json"
    fault = Fault("this process trains by itself", "rank 1", "init_process_group")
    modules = {"multinode.one_job": SimpleNamespace(TOLD=[fault])}

    end(modules, {FILE: str(path), VARIABLE: str(number)}, "/nowhere")

    assert path.exists() == leaves
    if leaves:
        assert read_reason(SimpleNamespace(message=json.loads(path.read_text())["message"])) == fault


@pytest.mark.parametrize("handled", [True, False])
def test_a_warning_of_a_scheduler_means_what_sigterm_means(monkeypatch: pytest.MonkeyPatch, handled: bool) -> None:
    """Unless the script handles it."""
    handlers = {number: (print if handled else signal.SIG_DFL) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    sent: list[int] = []
    monkeypatch.setattr(signal, "getsignal", handlers.get)
    monkeypatch.setattr(signal, "signal", lambda number, handler: handlers.update({number: handler}))
    monkeypatch.setattr(os, "kill", lambda _, number: sent.append(number))
    at_exit.take_warnings()
    for number, handler in handlers.items():
        if handler is not print:
            handler(number, None)  # type: ignore[operator]
    assert sent == ([] if handled else [signal.SIGTERM] * 2)


def read_program(name: str) -> ast.Module:
    return ast.parse((Path(at_exit.__file__).parent / f"{name}.py").read_text())


@pytest.mark.parametrize("row", sorted({each for row in at_exit.ROWS.values() for each in row}))
def test_what_a_row_names_is_there(row: str) -> None:
    program, _, function = row.partition(".")
    assert function in {node.name for node in read_program(program).body if isinstance(node, ast.FunctionDef)}


def test_a_program_is_loaded_after_those_that_it_imports() -> None:
    """They have no package there, so that each has to be there before."""
    programs = {path.stem for path in Path(at_exit.__file__).parent.glob("*.py")}
    imported = {
        program: {node.module for node in read_program(program).body if isinstance(node, ast.ImportFrom) and node.level}
        for program in programs
    }

    def loaded(program: str) -> set[str]:
        return {name for beside in at_exit.BESIDE.get(program, ()) for name in (beside, *loaded(beside))}

    assert {program: names for program, names in imported.items() if names - loaded(program)} == {}


def test_a_hook_that_fails_says_so_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(at_exit, "FAILED", [])
    monkeypatch.setenv("RANK", "0")
    for _ in range(2):
        at_exit.act(("order.nothing_of_this_name",), None)
    assert capsys.readouterr().err.count("order.nothing_of_this_name does not work here") == 1
