"""MPI: ranks that mpirun of Intel MPI, MPICH, Open MPI or MVAPICH has started."""

from __future__ import annotations

from collections.abc import Mapping

from entrypoint.errors import Refusal
from entrypoint.numbers import first_set, whole
from entrypoint.world import slurm
from entrypoint.world.model import MPI, Launcher, Ranks, World, all_set, has_several, make_launcher

# What only the ranks of one mpirun share, the surest first. PMI_JOBID is left over where mpirun runs in a step.
JOBS = (
    "I_MPI_HYDRA_UUID",
    "PALS_APID",
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "FLUX_JOB_ID",
    "PMI_JOBID",
)
# What names a hostfile to Intel MPI, MPICH and Open MPI, in the order in which `launch` looks for one.
HOSTFILES = ("I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile")
# Where a scheduler says how many nodes it gave, on not all of which an mpirun may have put ranks; if no variable gives
# the ranks of this node, they follow from that.
NODES = ("FLUX_JOB_NNODES", "SLURM_STEP_NUM_NODES", "SLURM_NNODES")


def find_job(environ: Mapping[str, str]) -> str:
    """Return what only the ranks of this mpirun share; empty where no variable says it."""
    return next((f"{name}={environ[name]}" for name in JOBS if environ.get(name)), "") or slurm.find_job(environ)


# What the variables of every MPI have in common.
COMMON = Ranks("", "", allocation=NODES, host=slurm.find_first_host, job=find_job)


def name_like(prefix: str, remedy: str) -> Ranks:
    """Return the variables of an MPI that have one beginning."""
    return COMMON._replace(
        rank=f"{prefix}_RANK",
        size=f"{prefix}_SIZE",
        local_rank=(f"{prefix}_LOCAL_RANK",),
        local_size=(f"{prefix}_LOCAL_SIZE",),
        remedy=remedy,
    )


# I_MPI_*, HYDRA_* and OMPI_MCA_* prove nothing: they are set where mpirun is started, too. MPI_LOCALRANKID comes first
# because SLURM_LOCALID is left over from the batch step when hydra starts the ranks inside an allocation.
FAMILIES = (
    COMMON._replace(
        rank="PMI_RANK",
        size="PMI_SIZE",
        local_rank=("MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"),
        local_size=("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"),
        remedy="mpirun -genv MASTER_ADDR node0",
    ),
    name_like("OMPI_COMM_WORLD", "mpirun -x MASTER_ADDR=node0"),
    name_like("MV2_COMM_WORLD", "mpirun_rsh ... MASTER_ADDR=node0"),
)


def read_several(environ: Mapping[str, str], launcher: Launcher) -> World:
    """Return the world of an MPI; raise Refusal if the variables of another MPI give this process another place."""
    found = [(each, environ[each.rank], environ[each.size]) for each in FAMILIES if has_several(environ, each)]
    if len({(whole(rank), whole(size)) for _, rank, size in found}) > 1:
        value = ", ".join(f"{each.rank}={rank} {each.size}={size}" for each, rank, size in found)
        ways = ", or ".join(f"unset {each.rank} {each.size}" for each, _, _ in found)
        remedy = f"unset the pair that an outer launcher has left: {ways}"
        raise Refusal("two launchers give this process different places", value, remedy)
    return launcher.world(environ)


def is_one(environ: Mapping[str, str], ranks: Ranks) -> bool:
    """Return whether an mpirun has started this process alone.

    Slurm and Flux give the only task of a step the same variables, but do not say how many ranks this node has.
    """
    if not all_set(ranks.rank, ranks.size)(environ) or has_several(environ, ranks):
        return False
    is_task = any(whole(environ.get(name, "")) == 1 for name in ("SLURM_STEP_NUM_TASKS", "FLUX_JOB_SIZE"))
    return not is_task or bool(first_set(environ, ranks.local_size))


def make_several(ranks: Ranks) -> Launcher:
    """Return an MPI that has started several processes."""
    launcher = make_launcher(MPI, ranks)
    return launcher._replace(world=lambda environ: read_several(environ, launcher))


def make_one(ranks: Ranks) -> Launcher:
    """Return an MPI that has started one process, which may start others itself."""
    launcher = make_launcher(MPI, ranks, lambda environ: is_one(environ, ranks), f"{ranks.size} is 1")
    read = launcher.world
    return launcher._replace(world=lambda environ: read(environ)._replace(started_alone=True), started=False)


SEVERAL = tuple(map(make_several, FAMILIES))
ONE = tuple(map(make_one, FAMILIES))
