"""Who started this process: an ordered table of launchers and the variables that prove them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.numbers import number, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

ALONE = "alone"
MPI = "mpi"
MPIJOB_LAUNCHER = "mpijob-launcher"
MPIJOB_WORKER = "mpijob-worker"
SLURM = "slurm"
TORCHRUN = "torchrun"
TORCHRUN_WORKER = "torchrun-worker"


class Ranks(NamedTuple):
    """The names under which one launcher hands out ranks; a local name may be absent."""

    rank: str
    size: str
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()


class Launcher(NamedTuple):
    """Who it is, and the fact that says so."""

    kind: str
    why: str
    ranks: Ranks | None = None


# I_MPI_*, HYDRA_* and OMPI_MCA_* are not here: they are set where mpirun is started, too. MPI_LOCALRANKID comes first
# because SLURM_LOCALID is left over from the batch step when hydra starts the ranks inside an allocation.
HYDRA = Ranks(
    "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "SLURM_LOCALID"),
    ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
)  # fmt: skip
OPEN_MPI = Ranks(
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_LOCAL_RANK",), ("OMPI_COMM_WORLD_LOCAL_SIZE",),
)  # fmt: skip
MVAPICH = Ranks(
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", ("MV2_COMM_WORLD_LOCAL_RANK",), ("MV2_COMM_WORLD_LOCAL_SIZE",),
)  # fmt: skip
STEP = Ranks("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_LOCALID",))
PLAIN = Ranks("RANK", "WORLD_SIZE", ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",))


def all_set(*names: str) -> Callable[[Mapping[str, str]], bool]:
    """Ask whether every one of these variables has a value."""
    return lambda environ: all(environ.get(name, "").strip() for name in names)


def in_step(environ: Mapping[str, str]) -> bool:
    """Ask whether srun started this process as one of several.

    A batch script has SLURM_PROCID=0 as well, but no SLURM_STEP_NUM_TASKS; a step of one task per job is a box in
    which somebody may start torchrun or mpirun, so the variables of those decide.
    """
    return all_set(STEP.rank, STEP.size)(environ) and (number(environ, STEP.size) or 0) > 1


def has_master(environ: Mapping[str, str]) -> bool:
    """Ask for a rendezvous without elasticPolicy: Master and Workers, or Trainer v2."""
    return all_set("PET_MASTER_ADDR")(environ) or all_set("MASTER_ADDR", "PET_NNODES")(environ)


def by_hand(environ: Mapping[str, str]) -> bool:
    """Ask for a node of a world set up by hand, or by an operator older than the PET_ variables."""
    return all_set("MASTER_ADDR", "RANK", "WORLD_SIZE")(environ) and (number(environ, "WORLD_SIZE") or 0) > 1


# The order is the policy. What is set for one process only comes before what is set for a whole pod, because a rank
# inherits the variables of the pod it runs in: torchrun and mpirun are used inside pods and Slurm allocations, never
# the other way round. RANK alone proves nothing: PyTorchJob sets it to the number of the pod.
TABLE: tuple[tuple[str, str, Callable[[Mapping[str, str]], bool], Ranks | None], ...] = (
    (TORCHRUN_WORKER, "TORCHELASTIC_RUN_ID is set", all_set("TORCHELASTIC_RUN_ID"), PLAIN),
    (MPI, "PMI_RANK and PMI_SIZE are set", all_set("PMI_RANK", "PMI_SIZE"), HYDRA),
    (MPI, "OMPI_COMM_WORLD_RANK is set", all_set("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), OPEN_MPI),
    (MPI, "MV2_COMM_WORLD_RANK is set", all_set("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"), MVAPICH),
    (SLURM, "SLURM_PROCID and SLURM_STEP_NUM_TASKS are set", in_step, STEP),
    (TORCHRUN, "PET_RDZV_ENDPOINT is set", all_set("PET_RDZV_ENDPOINT"), None),
    (TORCHRUN, "a master and PET_NNODES are set", has_master, None),
    (TORCHRUN_WORKER, "RANK, LOCAL_RANK and MASTER_ADDR are set",
     all_set("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"), PLAIN),
    (TORCHRUN, "RANK, WORLD_SIZE and MASTER_ADDR are set", by_hand, None),
    (MPIJOB_LAUNCHER, "K_MPI_JOB_ROLE is launcher", lambda environ: environ.get("K_MPI_JOB_ROLE") == "launcher", None),
    (MPIJOB_WORKER, "K_MPI_JOB_ROLE is worker", lambda environ: environ.get("K_MPI_JOB_ROLE") == "worker", None),
)  # fmt: skip


def detect(environ: Mapping[str, str]) -> Launcher:
    """Name the first launcher in the table whose variables are there."""
    for kind, why, proof, ranks in TABLE:
        if proof(environ):
            return Launcher(kind, why, ranks)
    return Launcher(ALONE, "no launcher's variables are set")


class Sign(NamedTuple):
    """A variable that says there should be other processes, and what would let us find them."""

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


def find_sign(environ: Mapping[str, str]) -> Sign | None:
    """Name the first variable which says that a process on its own was meant to be one of many.

    Of a range, `1:4`, the largest number counts, but for MULTINODE_WORLD_SIZE, whose smallest is what was insisted on.
    """
    for sign in SIGNS:
        low, _, high = environ.get(sign.name, "").partition(":")
        value = whole(low if sign.name == "MULTINODE_WORLD_SIZE" else high or low)
        if value is not None and value >= sign.least:
            return sign
    return None
