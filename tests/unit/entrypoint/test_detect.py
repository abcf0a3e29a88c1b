"""Environments of launchers, and what is concluded from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.detect import SIGNS, detect, find_sign
from entrypoint.errors import Refusal
from entrypoint.world import check_alone, read_world

INTEL = {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "I_MPI_PIN_INFO": "0"}
OPEN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_RANK": "0", "PRTE_LAUNCHED": "1"}  # fmt: skip
ELASTIC = {"PYTHONUNBUFFERED": "1", "PET_RDZV_ENDPOINT": "job-worker-0:23456", "PET_RDZV_BACKEND": "c10d",
           "PET_NNODES": "1:4", "PET_NPROC_PER_NODE": "auto", "PET_STANDALONE": ""}  # fmt: skip
MASTER = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "PET_MASTER_ADDR": "job-master-0",
          "PET_MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "1", "PET_NODE_RANK": "1", "PET_NNODES": "2",
          "PET_NPROC_PER_NODE": "auto"}  # fmt: skip
TRAINER = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": "1",
           "PET_MASTER_ADDR": "job-node-0-0.job", "PET_MASTER_PORT": "29500"}  # fmt: skip
WORKER = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
          "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}  # fmt: skip
STEP = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NODELIST": "node[003-004]"}  # fmt: skip
HYDRA_ENV = {"I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames": "true"}


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({}, "alone"),
        ({"RANK": "0"}, "alone"),
        ({"MASTER_ADDR": "127.0.0.1"}, "alone"),
        (HYDRA_ENV, "alone"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, "alone"),
        (INTEL, "mpi"),
        (OPEN, "mpi"),
        ({"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2"}, "mpi"),
        ({**MASTER, **INTEL}, "mpi"),
        ({**STEP, **INTEL}, "mpi"),
        ({**MASTER, **INTEL, **WORKER}, "torchrun-worker"),
        (STEP, "slurm"),
        ({**STEP, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", **ELASTIC}, "torchrun"),
        (ELASTIC, "torchrun"),
        (MASTER, "torchrun"),
        ({**ELASTIC, **MASTER, "PET_NNODES": "1:4"}, "torchrun"),
        (TRAINER, "torchrun"),
        ({"MASTER_ADDR": "a", "RANK": "1", "WORLD_SIZE": "2"}, "torchrun"),
        ({"MASTER_ADDR": "a", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "torchrun-worker"),
        ({"K_MPI_JOB_ROLE": "launcher", **HYDRA_ENV}, "mpijob-launcher"),
        ({"K_MPI_JOB_ROLE": "worker"}, "mpijob-worker"),
        ({"K_MPI_JOB_ROLE": "worker", **INTEL}, "mpi"),
    ],
)
def test_detect(environ: dict[str, str], kind: str) -> None:
    assert detect(environ).kind == kind


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, None),
        ({"WORLD_SIZE": "1", "RANK": "0", "PET_NNODES": "1", "SLURM_NTASKS": "1"}, None),
        ({"MULTINODE_WORLD_SIZE": "1:4"}, None),
        ({"PET_NNODES": "4", "PET_NPROC_PER_NODE": "auto"}, "PET_NNODES"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE"),
        ({"RANK": "1"}, "RANK"),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, "SLURM_NTASKS"),
        ({"MULTINODE_WORLD_SIZE": "2"}, "MULTINODE_WORLD_SIZE"),
        ({"PMI_SIZE": "2"}, "PMI_SIZE"),
    ],
)
def test_signs_of_more(environ: dict[str, str], name: str | None) -> None:
    sign = find_sign(environ)
    assert (sign.name if sign else None) == name
    world = read_world(environ, detect(environ), None)
    if name is None:
        check_alone(environ, world)
        return
    with pytest.raises(Refusal, match="alone"):
        check_alone(environ, world)


NAMES = sorted(
    {name for each in (INTEL, OPEN, ELASTIC, MASTER, WORKER, STEP) for name in each} | {s.name for s in SIGNS}
)
VALUES = st.one_of(st.sampled_from(["", "0", "1", "2", "1:4", "auto", "host", "127.0.0.1", "-1", "9" * 30]), st.text())


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_any_environment_gives_a_decision_or_the_one_error(environ: dict[str, str]) -> None:
    try:
        world = read_world(environ, detect(environ), None)
        check_alone(environ, world)
    except Refusal as refusal:
        assert refusal.fact and refusal.remedy
        return
    low, high = world.sizes
    assert 1 <= low <= high
    if world.launcher == "alone":
        assert find_sign(environ) is None
