"""Sizes and places, from the variables of every launcher."""

from __future__ import annotations

import pytest

from entrypoint.detect import detect
from entrypoint.errors import Refusal
from entrypoint.world import World, first_host, read_world

INTEL = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
APART = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
ELASTIC = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4"}
MASTER = {"MASTER_ADDR": "m", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "1", "PET_NNODES": "2"}
STEP = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NODELIST": "n[03-04]"}  # fmt: skip


def read(environ: dict[str, str], nproc: int | None = None) -> World:
    return read_world(environ, detect(environ), nproc)


def test_ranks_of_one_node_meet_on_loopback_over_what_the_pod_left() -> None:
    world = read({**INTEL, "RANK": "0", "WORLD_SIZE": "1"})
    assert (world.rank, world.size, world.local_rank, world.local_size) == (1, 2, 1, 2)
    assert (world.master, world.port, world.nodes) == ("127.0.0.1", 29500, (1, 1))


@pytest.mark.parametrize("master", [{}, {"MASTER_ADDR": "127.0.0.1"}, {"MASTER_ADDR": "localhost"}])
def test_ranks_of_several_nodes_need_a_master(master: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="MASTER_ADDR"):
        read({**APART, **master})


def test_ranks_of_several_nodes() -> None:
    world = read({**APART, "MASTER_ADDR": "node0", "MASTER_PORT": "1234"})
    assert (world.nodes, world.local_size, world.master, world.port) == ((2, 2), 1, "node0", 1234)


@pytest.mark.parametrize(
    ("environ", "nproc", "nodes", "local_size", "master", "port", "asked"),
    [
        (ELASTIC, None, (1, 4), None, "w-0", 23456, "1:4"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "2"}, None, (1, 4), 2, "w-0", 23456, "2:8"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "auto"}, 3, (1, 4), 3, "w-0", 23456, "3:12"),
        ({**MASTER, "PET_NPROC_PER_NODE": "auto"}, None, (2, 2), None, "m", 23456, "2"),
        ({"MASTER_ADDR": "m", "WORLD_SIZE": "2", "RANK": "0"}, None, (2, 2), None, "m", 29500, "2"),
        ({"PET_MASTER_ADDR": "m"}, None, (1, 1), None, "m", 29500, "1"),
    ],
)
def test_rendezvous(
    environ: dict[str, str],
    nproc: int | None,
    nodes: tuple[int, int],
    local_size: int | None,
    master: str,
    port: int,
    asked: str,
) -> None:
    world = read(environ, nproc)
    assert (world.nodes, world.local_size, world.master, world.port, world.asked) == (
        nodes, local_size, master, port, asked,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "fact"),
    [
        ({**ELASTIC, "PET_NNODES": "4:1"}, "PET_NNODES"),
        ({**ELASTIC, "PET_NNODES": "many"}, "PET_NNODES"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "two"}, "PET_NPROC_PER_NODE"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "a:b"}, "port"),
        ({"PET_MASTER_ADDR": "m", "PET_NNODES": "2"}, "which node"),
        ({**INTEL, "PMI_RANK": "2"}, "rank is not below"),
        ({**INTEL, "PMI_SIZE": "x"}, "PMI_SIZE is not a number"),
        ({"WORLD_SIZE": "abc", "MASTER_ADDR": "m", "RANK": "0"}, "WORLD_SIZE is not a number"),
    ],
)
def test_what_is_wrong_is_said(environ: dict[str, str], fact: str) -> None:
    with pytest.raises(Refusal) as caught:
        read(environ)
    assert fact in caught.value.fact
    assert caught.value.code == 2


def test_slurm_step() -> None:
    world = read(STEP)
    assert (world.rank, world.size, world.local_rank, world.local_size, world.master) == (3, 4, 1, 2, "n03")


def test_nproc_is_for_those_who_start_ranks() -> None:
    with pytest.raises(Refusal, match="--nproc"):
        read(INTEL, 2)
    assert read({}, 2).asked == "2"


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("node1", "node1"), ("a,b", "a"), ("node[003-007,9],x", "node003"), ("login1,n[1-2]", "login1"), ("", "")],
)
def test_first_host(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host
