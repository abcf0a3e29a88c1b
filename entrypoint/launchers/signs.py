"""Signs that a process should be one of many: a training that would start alone by mistake is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.launchers.world import ALONE
from entrypoint.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.launchers.world import World


class Sign(NamedTuple):
    """A variable which says that there should be other processes, from this value on, and what to set to find them."""

    name: str
    least: int
    remedy: str


MASTER = (
    "export MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE (RANK from 0, WORLD_SIZE = number of nodes) on every node"
)
JOB = "add a Master replica or an elasticPolicy to the PyTorchJob, or export PET_RDZV_ENDPOINT=HOST:PORT"
SRUN = "start the ranks with srun, or with mpirun: srun IMAGE-COMMAND, or sbatch with --ntasks=1"
MPIRUN = "start the ranks with mpirun, which sets both the rank and the size"
PORT = "leave out -pmi-port, with which mpirun sets neither PMI_RANK nor PMI_SIZE"
PMIX = "start the ranks with mpirun, or with srun: PMIx gives a rank, but no size"
SIGNS = (
    Sign("MULTINODE_WORLD_SIZE", 2, MASTER),
    Sign("PET_NNODES", 2, JOB),
    Sign("PET_NODE_RANK", 1, "export PET_MASTER_ADDR and PET_NNODES as well"),
    Sign("WORLD_SIZE", 2, MASTER),
    Sign("RANK", 1, MASTER),
    Sign("LOCAL_RANK", 1, "export RANK, WORLD_SIZE and MASTER_ADDR as well, or start the ranks with torchrun"),
    Sign("SLURM_STEP_NUM_TASKS", 2, SRUN),
    Sign("SLURM_NTASKS", 2, SRUN),
    Sign("SLURM_JOB_NUM_NODES", 2, SRUN),
    Sign("SLURM_PROCID", 1, SRUN),
    Sign("PMI_SIZE", 2, MPIRUN),
    Sign("PMI_RANK", 1, MPIRUN),
    Sign("PMI_PORT", 1, PORT),
    Sign("OMPI_COMM_WORLD_SIZE", 2, MPIRUN),
    Sign("OMPI_COMM_WORLD_RANK", 1, MPIRUN),
    Sign("MV2_COMM_WORLD_SIZE", 2, MPIRUN),
    Sign("MV2_COMM_WORLD_RANK", 1, MPIRUN),
    Sign("PMIX_RANK", 1, PMIX),
    Sign("PRTE_LAUNCHED", 1, PMIX),
)


def check_alone(environ: Mapping[str, str], world: World) -> None:
    """Raise Refusal for training alone, or in a world too small, where a variable says that there should be others."""
    check_insisted(environ, world)
    if world.launcher != ALONE:
        return
    sign = find_sign(environ)
    if sign is not None:
        fact = "this process is alone, but was meant to be one of many"
        raise Refusal(fact, f"{sign.name}={environ[sign.name]}", f"{sign.remedy}; or unset {sign.name} to train alone")


def check_insisted(environ: Mapping[str, str], world: World) -> None:
    """Raise Refusal for a rank of a world smaller than MULTINODE_WORLD_SIZE, the smallest number of its range."""
    least = read_least(environ)
    if world.size is not None and least is not None and world.size < least:
        remedy = f"start {least} processes, or unset MULTINODE_WORLD_SIZE"
        raise Refusal("the world is smaller than MULTINODE_WORLD_SIZE", f"{world.size} of {least}", remedy)


def read_least(environ: Mapping[str, str]) -> int | None:
    """Return the smallest number of MULTINODE_WORLD_SIZE, `2` or `1:4`; None if it is not set."""
    text = environ.get("MULTINODE_WORLD_SIZE", "").strip()
    low, _, high = text.partition(":")
    if text and (whole(low) is None or whole(high or low) is None):
        remedy = "export MULTINODE_WORLD_SIZE=2, or 1:4, or unset it"
        raise Refusal("MULTINODE_WORLD_SIZE is neither a number nor a range", repr(text), remedy)
    return whole(low)


def find_sign(environ: Mapping[str, str]) -> Sign | None:
    """Return the first variable which says that a process on its own was meant to be one of many.

    Of a range, `1:4`, the largest number counts, but for MULTINODE_WORLD_SIZE, whose smallest is what was insisted on.
    """
    for sign in SIGNS:
        low, _, high = environ.get(sign.name, "").partition(":")
        value = whole(low if sign.name == "MULTINODE_WORLD_SIZE" else high or low)
        if value is not None and value >= sign.least:
            return sign
    return None
