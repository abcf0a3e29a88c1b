"""Cores of the ranks of a node, and of oneCCL's workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.machine.cpus import Machine
from entrypoint.tuning.cores import domain, pin_ranks, split, worker_cpus
from tests.support.machines import Box, look_at, pod

TWO = Box(2, 28, 2)


@pytest.mark.parametrize(
    ("machine", "ranks", "environ", "cpus", "masks"),
    [
        # IPEX's own example (cpu/launch/launcher_distributed.py): two sockets of 28 cores, four workers.
        (look_at(TWO), 2, {"CCL_WORKER_COUNT": "4"}, "0,1,2,3,28,29,30,31", "[0xffffff0,0xffffff00000000]"),
        # The guide's (huggingface/blog, accelerating-pytorch): 32 cores, one rank, four workers.
        (look_at(Box(1, 32, 2)), 1, {"CCL_WORKER_COUNT": "4"}, "0,1,2,3", "[0xfffffff0]"),
        (look_at(TWO), 2, {"CCL_WORKER_COUNT": "1"}, "0,28", "[0xffffffe,0xffffffe0000000]"),
        (look_at(Box(1, 5)), 2, {"CCL_WORKER_COUNT": "1"}, "0,2", "[0x2,0x18]"),
        (look_at(Box(1, 4, 2, paired=True)), 2, {"CCL_WORKER_COUNT": "1"}, "0,4", "[0x4,0x40]"),
        (look_at(TWO, cpus="8-11"), 2, {"CCL_WORKER_COUNT": "1"}, "8,10", "[0x200,0x800]"),
    ],
)
def test_ranks_and_workers_of_oneccl_get_cores_of_their_own(
    machine: Machine, ranks: int, environ: dict[str, str], cpus: str, masks: str
) -> None:
    assert pin_ranks(machine, ranks, {"CCL_ROOT": "/ccl", **environ}) == {
        "CCL_WORKER_AFFINITY": cpus,
        "I_MPI_PIN_DOMAIN": masks,
    }


@pytest.mark.parametrize(
    ("machine", "ranks", "environ"),
    [
        (look_at(TWO), 2, {"CCL_WORKER_COUNT": "1"}),  # gloo, in an image without oneCCL: hydra's own division is right
        (look_at(TWO), 2, {"CCL_ROOT": "/ccl"}),
        (look_at(TWO), 999_999_999, {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "1"}),
        (look_at(TWO), 56, {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "1"}),
        (look_at(TWO, pod(8)), 2, {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "1"}),
        (look_at(TWO), 2, {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "1", "I_MPI_PIN_DOMAIN": "socket"}),
        (look_at(TWO), 2, {"CCL_ROOT": "/ccl", "CCL_WORKER_COUNT": "1", "CCL_WORKER_AFFINITY": "auto"}),
    ],
)
def test_ranks_are_not_pinned(machine: Machine, ranks: int, environ: dict[str, str]) -> None:
    assert pin_ranks(machine, ranks, environ) == {}


@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 2), st.integers(1, 30), st.integers(0, 3))
def test_every_core_belongs_to_one_rank(sockets: int, cores: int, threads: int, ranks: int, workers: int) -> None:
    shares = split(look_at(Box(sockets, cores, threads)), ranks)
    assert len(shares) == ranks
    assert sorted(cpu for share in shares for cpu in share) == list(range(sockets * cores))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    places = worker_cpus(shares, workers)
    if places:
        masks = [int(mask, 16) for mask in domain(shares, workers)[1:-1].split(",")]
        assert all(masks)
        assert sum(masks) + sum(1 << int(cpu) for cpu in places.split(",")) == (1 << sockets * cores) - 1
