"""Ranks of torchrun that take their own cores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.machine.cpus import Machine
from entrypoint.machine.image import Stack
from entrypoint.numbers import write_cpus
from entrypoint.settings import MARK
from entrypoint.tuning.bind import list_variables, narrow, start_rank
from entrypoint.tuning.scene import Scene
from entrypoint.tuning.starters import RANK, bind_ranks
from entrypoint.world.model import World
from tests.support.machines import Box, look_at, pod

GLOO = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", None, "/site")
CCL = GLOO._replace(torch="2.4.0+cpu", backend="ccl")
TWO = Box(2, 28, 2)
SECOND = World("torchrun-worker", "", (1, 1), None, 2, 1, 1, 2, "127.0.0.1", 29500)
ALL_FINE = "granularity=fine,compact,1,0"


@pytest.mark.parametrize(
    ("machine", "world", "cpus"),
    [
        (look_at(TWO), SECOND, "28-55,84-111"),
        (look_at(Box(1, 4, 2, paired=True)), SECOND, "4-7"),
        (look_at(Box(1, 5)), SECOND._replace(local_size=3, rank=2, local_rank=2, size=3), "3-4"),
        (look_at(TWO, pod(8)), SECOND, "0-111"),  # under a quota the cores are others', too
        (look_at(Box(1, 2)), SECOND._replace(local_size=3), "0-1"),
        (look_at(TWO), SECOND._replace(local_size=1, local_rank=0), "0-111"),
        (look_at(TWO), SECOND._replace(local_rank=0), "28-55,84-111"),  # --virtual-local-rank
        (look_at(TWO), SECOND._replace(nodes=(2, 2), node_rank=1, rank=3, size=4), "28-55,84-111"),
    ],
)
def test_a_rank_has_the_cores_of_its_numa_node(machine: Machine, world: World, cpus: str) -> None:
    assert write_cpus(narrow(machine, world).cpus) == cpus


@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 2), st.integers(2, 12), st.integers(0, 24))
def test_every_processor_belongs_to_one_rank(sockets: int, cores: int, threads: int, ranks: int, first: int) -> None:
    """Ranks of nodes with other numbers of processes come first: any numbers in a row do."""
    machine = look_at(Box(sockets, cores, threads))
    worlds = [SECOND._replace(local_size=ranks, rank=first + rank, local_rank=rank) for rank in range(ranks)]
    shares = [narrow(machine, world).cpus for world in worlds]
    if ranks <= machine.physical:
        assert sorted(cpu for share in shares for cpu in share) == sorted(machine.cpus)
    else:
        assert set(shares) == {machine.cpus}


@pytest.mark.parametrize(
    ("stack", "environ", "expected"),
    [
        (GLOO, {}, {"OMP_NUM_THREADS": "28", "KMP_AFFINITY": ALL_FINE}),
        (GLOO, {"OMP_NUM_THREADS": "56", MARK: "OMP_NUM_THREADS=56"},
         {"OMP_NUM_THREADS": "28", "KMP_AFFINITY": ALL_FINE}),
        (GLOO, {"OMP_NUM_THREADS": "7", "KMP_AFFINITY": "none"}, {}),
        (GLOO, {"OMP_NUM_THREADS": "7", MARK: "OMP_NUM_THREADS=56"}, {"KMP_AFFINITY": ALL_FINE}),
        (CCL, {"CCL_WORKER_AFFINITY": "0,28"},
         {"OMP_NUM_THREADS": "27", "KMP_AFFINITY": "granularity=fine,proclist=[29-55],explicit"}),
    ],
)  # fmt: skip
def test_a_rank_gets_the_variables_of_its_own_cores(
    stack: Stack, environ: dict[str, str], expected: dict[str, str]
) -> None:
    own = narrow(look_at(TWO), SECOND)
    found = list_variables(Scene(SECOND, own, stack, True, lambda: None, lambda path: True, environ))
    assert {name: value for name, value in found.items() if name != MARK} == expected
    assert all(f"{name}={value}" in found[MARK] for name, value in expected.items())


@pytest.mark.parametrize(
    ("name", "world", "machine", "bound"),
    [
        ("torchrun", World("alone", "", local_size=2), look_at(TWO), True),
        ("python3", World("torchrun", "", (2, 2), local_size=2), look_at(TWO), True),
        ("/venv/bin/torchrun", World("alone", "", local_size=2), look_at(TWO), False),  # it has a Python of its own
        ("torchrun", World("alone", "", local_size=1), look_at(TWO), False),
        ("torchrun", World("alone", "", local_size=2), look_at(TWO, pod(8)), False),
        ("torchrun", SECOND, look_at(TWO), False),
        ("bash", World("alone", "", local_size=1), look_at(TWO), True),
        ("bash", World("alone", "", local_size=1), look_at(TWO, pod(8)), True),  # its ranks count their threads
        ("/bin/bash", World("alone", "", local_size=1), look_at(TWO), True),
        ("numactl", World("alone", "", local_size=1), look_at(TWO), True),
        ("bash", SECOND, look_at(TWO), False),
        ("true", World("alone", "", local_size=1), look_at(TWO), False),
    ],
)
def test_which_ranks_are_bound(name: str, world: World, machine: Machine, bound: bool) -> None:
    found = bind_ranks(name, world, machine, lambda path: True)
    assert [(each.name, each.value) for each in found] == ([("PYTHON_EXEC", RANK)] if bound else [])
    assert bind_ranks(name, world, machine, lambda path: False) == []


def test_ranks_under_a_quota_divide_its_cores() -> None:
    machine = look_at(TWO, pod(8))
    environ = {"OMP_NUM_THREADS": "8", MARK: "OMP_NUM_THREADS=8"}
    scene = Scene(SECOND, narrow(machine, SECOND), GLOO, True, lambda: None, lambda path: True, environ)
    assert list_variables(scene) == {"OMP_NUM_THREADS": "4", MARK: "OMP_NUM_THREADS=4"}


@pytest.mark.parametrize(
    ("world", "cpus"), [(SECOND, "28-55,84-111"), (SECOND._replace(rank=0, size=1, local_rank=0, local_size=1), None)]
)
def test_a_rank_narrows_itself_before_python(monkeypatch: pytest.MonkeyPatch, world: World, cpus: str | None) -> None:
    masks: list[str] = []
    started: list[list[str]] = []
    monkeypatch.setattr("os.sched_setaffinity", lambda _, mask: masks.append(write_cpus(mask)))
    monkeypatch.setattr("os.execvpe", lambda file, argv, environ: started.append([file, *argv]))

    start_rank(["-u", "x.py"], {}, world, look_at(TWO), GLOO)

    assert masks == ([cpus] if cpus else [])
    assert started == [["python3", "python3", "-u", "x.py"]]
