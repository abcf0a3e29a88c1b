"""What is said about a decision."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from entrypoint.decide import Plan
from entrypoint.explain import one_line, plan_as_json, plan_as_text
from entrypoint.machine.processors import Machine
from entrypoint.settings import Prepared
from entrypoint.world.model import World
from tests.support.starts import make_facts

MACHINE = Machine(frozenset(range(4)), 4, 2, 1, (frozenset(range(4)),), 2.0, False)
PREPARED = Prepared(
    {}, {"OMP_NUM_THREADS": "2", "LD_PRELOAD": "/a/libtcmalloc.so.4:/b/libiomp5.so"}, {"KMP_BLOCKTIME": "9"}
)
PLAN = Plan(
    make_facts({}, machine=MACHINE), World("alone", "no launcher's variables are set", local_size=1), PREPARED,
    ["python3", "a b.py"], ["a note"], {"OMP_NUM_THREADS": "because"},
)  # fmt: skip


def test_the_first_line_names_launcher_world_and_variables() -> None:
    assert one_line(PLAN) == (
        "multinode: alone (no launcher's variables are set); world 1 = 1 node(s) x 1 process(es) on 2 of 4 cores; "
        "set LD_PRELOAD=libtcmalloc.so.4:libiomp5.so OMP_NUM_THREADS=2; kept yours KMP_BLOCKTIME=9"
    )


def test_what_the_line_says_already_is_no_variable_of_it() -> None:
    added = {"OMP_NUM_THREADS": "2", "MULTINODE_WORLD_SIZE": "1"}
    line = one_line(replace(PLAN, prepared=Prepared({}, added, {"MULTINODE_WORLD_SIZE": "1"})))
    assert line.endswith("set OMP_NUM_THREADS=2")


def test_a_decision_is_printed_as_json() -> None:
    found = json.loads(plan_as_json(PLAN))
    assert {"launcher", "why", "world", "machine", "set", "argv"} <= set(found)
    assert found["launcher"] == "alone" and found["argv"] == ["python3", "a b.py"]
    assert found["world"]["size"] == 1 and found["machine"]["cpus"] == "0-3"


def test_no_secret_is_shown() -> None:
    decision = replace(PLAN, argv=["python3", "x.py", "--hub_token", "hf_x"])
    for text in (plan_as_json(decision), plan_as_text(decision), one_line(decision)):
        assert "hf_x" not in text


def test_a_decision_is_printed_with_its_reasons() -> None:
    text = plan_as_text(PLAN)
    assert "OMP_NUM_THREADS=2  # because" in text
    assert "backend     gloo; this image has no oneCCL bindings\n" in text
    assert text.endswith("command     python3 'a b.py'")


@pytest.mark.parametrize(
    ("world", "batch", "said"),
    [
        (World("alone", "", local_size=8), 12, "effective batch 96"),
        (World("torchrun", "", (1, 4), local_size=2), 12, "effective batch 24 to 96"),
        (World("mpi", "", rank=0, size=4, local_size=2), 8, "effective batch 32"),
        (World("alone", "", local_size=1), 12, None),
        (World("alone", "", local_size=8), None, None),
    ],
)
def test_the_batch_of_the_world_is_said(world: World, batch: int | None, said: str | None) -> None:
    line = one_line(replace(PLAN, world=world, batch=batch))
    assert (said or "on 2 of 4 cores;") in line


@pytest.mark.parametrize("value", ["1\nmultinode: rank 0", "1\rmultinode", "\x1b[2J", "\u2028x", "\x85x"])
def test_no_value_forges_a_row_of_the_log(value: str) -> None:
    prepared = Prepared({}, {"LD_PRELOAD": value}, {"OMP_NUM_THREADS": value})
    decision = replace(PLAN, prepared=prepared, argv=["python3", value], notes=[value])
    plain = replace(PLAN, prepared=Prepared({}, {"A": "1"}, {"B": "1"}), argv=["python3", "x"], notes=["x"])
    assert len(one_line(decision).splitlines()) == 1
    assert len(plan_as_text(decision).splitlines()) == len(plan_as_text(plain).splitlines())
