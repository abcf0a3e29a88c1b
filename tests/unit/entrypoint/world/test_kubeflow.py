"""The pods of operators: what a rank finds there."""

from __future__ import annotations

import pytest

from entrypoint.world.table import detect, read_world
from tests.support.launchers import left_by


@pytest.mark.parametrize(
    ("name", "nodes", "node_rank", "local_size", "master", "port"),
    [
        ("pytorchjob-master", (2, 2), 1, None, "job-master-0", 23456),
        ("pytorchjob-elastic", (1, 4), None, None, "job-worker-0", 23456),
        ("pytorchjob-elastic-master", (1, 4), None, 2, "job-worker-0", 23456),
        ("trainer-v2", (2, 2), 1, 4, "job-node-0-0.job", 29500),
    ],
)
def test_a_pod_of_an_operator_finds_its_place(
    name: str, nodes: tuple[int, int], node_rank: int | None, local_size: int | None, master: str, port: int
) -> None:
    world = read_world(left_by(name), detect(left_by(name)), None)
    assert (world.nodes, world.node_rank, world.local_size) == (nodes, node_rank, local_size)
    assert (world.master, world.port) == (master, port)
