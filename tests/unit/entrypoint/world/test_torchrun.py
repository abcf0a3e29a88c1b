"""A rendezvous of torchrun: nodes, processes, master."""

from __future__ import annotations

import contextlib

import pytest

from entrypoint.errors import Refusal
from entrypoint.world.model import World, name_job
from entrypoint.world.table import detect, read_world
from entrypoint.world.torchrun import (
    check_loopback,
    check_meeting,
    check_options,
    count_by_hand,
    is_standalone,
    split_endpoint,
)
from tests.support.launchers import left_by

ELASTIC = {"PET_RDZV_ENDPOINT": "w-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:4"}
MASTER = {"MASTER_ADDR": "m", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "1", "PET_NNODES": "2"}

SECOND = {"PET_NNODES": "2", "PET_NODE_RANK": "1"}


def read(environ: dict[str, str], nproc: int | None = None) -> World:
    return read_world(environ, detect(environ), nproc)


@pytest.mark.parametrize(
    ("environ", "nproc", "nodes", "local_size", "master", "port", "asked"),
    [
        (ELASTIC, None, (1, 4), None, "w-0", 23456, "1:4"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "2"}, None, (1, 4), 2, "w-0", 23456, "2:8"),
        ({**ELASTIC, "PET_NPROC_PER_NODE": "auto"}, 3, (1, 4), 3, "w-0", 23456, "3:12"),
        ({**MASTER, "PET_NPROC_PER_NODE": "auto"}, None, (2, 2), None, "m", 23456, "2"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "w-0"}, None, (1, 4), None, "w-0", 29400, "1:4"),
        ({"MASTER_ADDR": "m", "WORLD_SIZE": "2", "RANK": "0"}, None, (2, 2), 1, "m", 29500, "2"),
        ({"MASTER_ADDR": "m", "WORLD_SIZE": "2", "RANK": "0"}, 3, (2, 2), 3, "m", 29500, "6"),
        ({"PET_MASTER_ADDR": "m", "PET_NNODES": "1"}, None, (1, 1), None, "m", 29500, "1"),
        ({"PET_MASTER_ADDR": "m", "WORLD_SIZE": "2", "RANK": "1"}, None, (2, 2), None, "m", 29500, "2"),
        ({"PET_MASTER_ADDR": "m", "PET_NNODES": "1:2", "PET_NODE_RANK": "1"}, 3, (2, 2), 3, "m", 29500, "6"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "[fd00::1]:23456"}, None, (1, 4), None, "fd00::1", 23456, "1:4"),
    ],
)
def test_a_rendezvous_is_read_from_the_variables_of_torchrun(
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
    ("environ", "value", "remedy"),
    [
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "localhost:29400"}, "localhost", "export PET_RDZV_ENDPOINT=node0:29400,"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "127.0.0.1"}, "127.0.0.1", "export PET_RDZV_ENDPOINT=node0:29400,"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "0.0.0.0:29400"}, "0.0.0.0", "export PET_RDZV_ENDPOINT=node0:29400,"),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "[::]:29400"}, "::", "export PET_RDZV_ENDPOINT=node0:29400,"),
        ({**SECOND, "PET_MASTER_ADDR": "localhost"}, "localhost", "export PET_MASTER_ADDR=node0,"),
        ({**SECOND, "PET_MASTER_ADDR": "localhost", "PET_NODE_RANK": "0"}, "", ""),  # PyTorchJob's master
        ({**SECOND, "PET_MASTER_ADDR": "localhost", "PET_NNODES": "1", "PET_NODE_RANK": "0"}, "", ""),
        ({**ELASTIC, "PET_RDZV_ENDPOINT": "localhost:29400", "PET_NNODES": "1"}, "", ""),
        ({"MASTER_ADDR": "localhost", "WORLD_SIZE": "2", "RANK": "1"}, "", ""),  # two processes on one machine
    ],
)
def test_nodes_do_not_meet_on_loopback(environ: dict[str, str], value: str, remedy: str) -> None:
    if not value:
        check_loopback(environ, read(environ))
        return
    with pytest.raises(Refusal, match="the nodes meet on loopback") as caught:
        check_loopback(environ, read(environ))
    assert (caught.value.value, caught.value.code) == (value, 2)
    assert caught.value.remedy.startswith(remedy)
    with pytest.raises(Refusal, match="where only those on this machine find each other") as caught:
        check_loopback(environ, read(environ), typed=True)
    assert caught.value.value == value and "--master_addr NODE0" in caught.value.remedy


@pytest.mark.parametrize(
    ("environ", "refused"),
    [
        ({"PET_NNODES": "2", "PET_NODE_RANK": "0"}, True),
        ({"PET_NNODES": "1:2", "PET_RDZV_BACKEND": "c10d"}, True),
        ({"PET_NNODES": "1"}, False),
        ({"PET_NPROC_PER_NODE": "2", "PET_MAX_RESTARTS": "0"}, False),  # --standalone
        ({**SECOND, "PET_MASTER_ADDR": "127.0.0.1"}, False),
        (ELASTIC, False),
    ],
)
def test_a_typed_torchrun_of_several_nodes_says_where_they_meet(environ: dict[str, str], refused: bool) -> None:
    if not refused:
        check_meeting(environ, read(environ))
        return
    with pytest.raises(Refusal, match="nothing says where the nodes of this torchrun meet") as caught:
        check_meeting(environ, World("alone", ""))
    assert (caught.value.value, caught.value.code) == (f"--nnodes {environ['PET_NNODES']}", 2)


@pytest.mark.parametrize(
    ("text", "nodes", "fact"),
    [
        ("1", 4, "a standalone torchrun meets no other node"),
        ("01", 2, "a standalone torchrun meets no other node"),
        ("true", 1, "PET_STANDALONE is not a number"),
        ("1", 1, ""),
        ("0", 4, ""),
        (" 00", 4, ""),
        ("", 4, ""),  # of a PyTorchJob
    ],
)
def test_several_nodes_do_not_stand_alone(text: str, nodes: int, fact: str) -> None:
    environ = {"PET_STANDALONE": text}
    with pytest.raises(Refusal, match=fact) if fact else contextlib.nullcontext():
        is_standalone(environ)
        check_options(environ, nodes)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("h:29400", ("h", "29400")),
        ("h", ("h", "")),
        ("", ("", "")),
        ("10.0.0.1:1", ("10.0.0.1", "1")),
        ("[fd00::1]:29400", ("[fd00::1]", "29400")),
        ("[fd00::1]", ("[fd00::1]", "")),
        ("fd00::1", ("fd00::1", "")),
        ("::1", ("::1", "")),
    ],
)
def test_an_endpoint_is_split_at_its_port(text: str, parts: tuple[str, str]) -> None:
    assert split_endpoint(text) == parts


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        (ELASTIC, "qa"),
        (MASTER, "qa"),
        ({**ELASTIC, "SLURM_JOB_ID": "7"}, "qa-7"),
        ({**ELASTIC, "PET_RDZV_ID": "mine"}, "mine"),
        ({"PET_MASTER_ADDR": "m", "PET_NNODES": "1"}, ""),
        (left_by("aws-batch-node"), "AWS_BATCH_JOB_ID=6fb5c6d2-4b3a-4a05-8d37-1f6a5f3a3a51"),
    ],
)
def test_name_of_a_job_that_all_its_nodes_have(environ: dict[str, str], job: str) -> None:
    assert name_job(read(environ), environ, "qa").job == job


@pytest.mark.parametrize(
    ("node", "rank", "local_rank", "count"),
    [("1", "2", "0", 2), ("2", "5", "1", 2), ("2", "4", "1", None), ("3", "1", "1", None), ("0", "1", "1", None)],
)
def test_ranks_of_a_node_are_counted_by_those_before_it(
    node: str, rank: str, local_rank: str, count: int | None
) -> None:
    environ = {"MASTER_ADDR": "10.77.0.1", "NODE_RANK": node, "RANK": rank, "LOCAL_RANK": local_rank}
    assert count_by_hand(environ, 8) == count


@pytest.mark.parametrize(
    ("more", "rank"),
    [
        ({"JOB_COMPLETION_INDEX": "2"}, 2),
        ({"JOB_COMPLETION_INDEX": "2", "PET_NODE_RANK": "1"}, 1),
        ({"JOB_COMPLETION_INDEX": "2", "PET_NODE_RANK": " "}, 2),
        ({"JOB_COMPLETION_INDEX": "0", "RANK": "1"}, 1),
        ({"JOB_COMPLETION_INDEX": "3", "PET_NNODES": "1"}, None),
    ],
)
def test_a_pod_of_an_indexed_job_has_its_number(more: dict[str, str], rank: int | None) -> None:
    assert read({"PET_NNODES": "3", "PET_MASTER_ADDR": "qa-0.qa", **more}).node_rank == rank
