"""MPI: ranks that mpirun of Intel MPI, MPICH, Open MPI or MVAPICH has started."""

from __future__ import annotations

from entrypoint.launchers.slurm import count_ranks_of_node
from entrypoint.launchers.world import MPI, Launcher, Ranks, all_set, make_launcher


def make_mpi(why: str, ranks: Ranks) -> Launcher:
    """Return an MPI whose rank and size are both set; one that says nothing of nodes has put one rank on each."""
    ranks = ranks._replace(ranks_of_node=count_ranks_of_node)
    return make_launcher(MPI, why, ranks, all_set(ranks.rank, ranks.size))


# I_MPI_*, HYDRA_* and OMPI_MCA_* prove nothing: they are set where mpirun is started, too. MPI_LOCALRANKID comes first
# because SLURM_LOCALID is left over from the batch step when hydra starts the ranks inside an allocation.
HYDRA = make_mpi("PMI_RANK and PMI_SIZE are set", Ranks(
    "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "SLURM_LOCALID"),
    ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
))  # fmt: skip
OPEN_MPI = make_mpi("OMPI_COMM_WORLD_RANK is set", Ranks(
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_LOCAL_RANK",), ("OMPI_COMM_WORLD_LOCAL_SIZE",),
))  # fmt: skip
MVAPICH = make_mpi("MV2_COMM_WORLD_RANK is set", Ranks(
    "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", ("MV2_COMM_WORLD_LOCAL_RANK",), ("MV2_COMM_WORLD_LOCAL_SIZE",),
))  # fmt: skip
