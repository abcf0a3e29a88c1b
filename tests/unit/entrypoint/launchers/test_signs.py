"""Signs that a process should be one of many."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.launchers.signs import check_alone, find_sign
from entrypoint.launchers.table import detect, read_world
from tests.support.launchers import left_by


@pytest.mark.parametrize(
    ("left", "more", "name"),
    [
        ((), {}, None),
        ((), {"WORLD_SIZE": "1", "RANK": "0", "PET_NNODES": "1", "SLURM_NTASKS": "1"}, None),
        ((), {"MULTINODE_WORLD_SIZE": "1:4"}, None),
        (("slurm-one-task",), {}, None),
        (("slurm-one-task",), {"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.pmix.7.0"}, None),
        (("pytorchjob-workers",), {}, "PET_NNODES"),
        ((), {"PET_NODE_RANK": "1"}, "PET_NODE_RANK"),
        ((), {"WORLD_SIZE": "2"}, "WORLD_SIZE"),
        ((), {"RANK": "1"}, "RANK"),
        ((), {"LOCAL_RANK": "1"}, "LOCAL_RANK"),
        ((), {"PMI_RANK": "1"}, "PMI_RANK"),
        (("slurm-batch",), {}, "SLURM_NTASKS"),
        ((), {"SLURM_JOB_NUM_NODES": "2", "SLURM_PROCID": "0"}, "SLURM_JOB_NUM_NODES"),
        ((), {"MULTINODE_WORLD_SIZE": "2"}, "MULTINODE_WORLD_SIZE"),
        ((), {"PMI_SIZE": "2"}, "PMI_SIZE"),
        ((), {"PMI_ID": "0", "PMI_PORT": "node0:39063", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}, "PMI_PORT"),
        ((), {"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_SIZE"),
        ((), {"MV2_COMM_WORLD_SIZE": "2"}, "MV2_COMM_WORLD_SIZE"),
        (("slurm-pmix",), {}, "PMIX_RANK"),
        (("prterun-0",), {}, "PRTE_LAUNCHED"),
        (("prterun-1",), {}, "PMIX_RANK"),
    ],
)
def test_signs_of_more(left: tuple[str, ...], more: dict[str, str], name: str | None) -> None:
    environ = {**left_by(*left), **more}
    sign = find_sign(environ)
    assert (sign.name if sign else None) == name
    world = read_world(environ, detect(environ), None)
    if name is None:
        check_alone(environ, world)
        return
    with pytest.raises(Refusal, match="alone"):
        check_alone(environ, world)


@pytest.mark.parametrize(("size", "fits"), [("2", True), ("1:4", True), ("3", False), ("3:4", False)])
def test_a_rank_of_a_world_smaller_than_insisted_on_is_refused(size: str, fits: bool) -> None:
    environ = {**left_by("intel-mpi-1"), "MULTINODE_WORLD_SIZE": size}
    world = read_world(environ, detect(environ), None)
    if fits:
        check_alone(environ, world)
        return
    with pytest.raises(Refusal, match="smaller than MULTINODE_WORLD_SIZE"):
        check_alone(environ, world)
