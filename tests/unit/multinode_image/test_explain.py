"""What is said about a decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multinode_image.explain import one_line
from multinode_image.tasks.command import PLAIN, Command
from multinode_image.world.model import World
from tests.support.launchers import left_by
from tests.support.starts import SMOKE, make_facts, make_plan, place

POD = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "pod0"}
ELASTIC = {"PET_NNODES": "1:4", "PET_RDZV_ENDPOINT": "pod0:29400", "PET_RDZV_BACKEND": "c10d"}


@pytest.mark.parametrize(
    ("job", "environ", "nproc", "line"),
    [
        (SMOKE, {}, 1, "alone, 56 threads"),
        (SMOKE, {}, 2, "2 ranks on this node, 28 threads each, gloo on lo"),
        (SMOKE, POD, 1, "node 1 of 2, rank 1 of 2, 56 threads, gloo on eth0, meeting at pod0:29500"),
        (SMOKE, POD, 2, "node 1 of 2, ranks 2 to 3 of 4, 28 threads each, gloo on eth0, meeting at pod0:29500"),
        (SMOKE, ELASTIC, 2, "one of 1 to 4 nodes, 2 ranks here, 28 threads each, gloo on eth0, meeting at pod0:29400"),
        (
            SMOKE,
            left_by("slurm-step"),
            None,
            "rank 3 of 4 on 2 nodes, started by slurm, 28 threads, gloo on eth0, meeting at n03:24921",
        ),
        (SMOKE, left_by("intel-mpi-1"), None, "rank 1 of 2, started by mpi, 28 threads, gloo on lo"),
        (Command(PLAIN, "bash", []), POD, None, "one process, in a pod or node of torchrun, 56 threads"),
    ],
)
def test_the_first_line_says_the_place_of_a_rank(
    job: Command, environ: dict[str, str], nproc: int | None, line: str
) -> None:
    assert one_line(make_plan(job, make_facts(environ), nproc)) == line


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
    line = one_line(replace(make_plan(SMOKE, make_facts({}), 1), situation=place(world), batch=batch))
    assert said in line if said else "batch" not in line
