"""Kubeflow: the pods of a PyTorchJob or a TrainJob, which start torchrun, and those of an MPIJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.world.model import MPIJOB_LAUNCHER, MPIJOB_WORKER, Launcher, World, all_set
from entrypoint.world.mpi import HOSTFILES
from entrypoint.world.torchrun import AT_ENDPOINT, AT_MASTER_ADDR, make_rendezvous, read_count

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLE = "K_MPI_JOB_ROLE"
# Where the operators of MPIJob and TrainJob mount a hostfile.
MOUNTED = "/etc/mpi"


def has_master(environ: Mapping[str, str]) -> bool:
    """Return whether there is a rendezvous without elasticPolicy: Master and Workers, or Trainer v2."""
    return all_set("PET_MASTER_ADDR")(environ) or all_set("MASTER_ADDR", "PET_NNODES")(environ)


def is_trainjob(environ: Mapping[str, str]) -> bool:
    """Return whether this is the launcher of a TrainJob with the MPI runtime, which has no role: a hostfile is mounted.

    Where mpirun was typed by hand, a hostfile is somewhere else (trainer v2, pkg/runtime/framework/plugins/mpi).
    """
    return any(environ.get(name, "").startswith(f"{MOUNTED}/") for name in HOSTFILES)


def make_mpijob(kind: str, role: str) -> Launcher:
    """Return one of the two kinds of pods of an MPIJob: mpirun starts ranks in one, from the other."""
    why = f"{ROLE} is {role}"
    return Launcher(
        kind,
        why,
        lambda environ: environ.get(ROLE) == role,
        lambda environ: World(kind, why, local_size=read_count(environ)),
    )


ELASTIC = make_rendezvous(AT_ENDPOINT, all_set("PET_RDZV_ENDPOINT"))
WITH_MASTER = make_rendezvous(AT_MASTER_ADDR, has_master)
LAUNCHER = make_mpijob(MPIJOB_LAUNCHER, "launcher")
WORKER = make_mpijob(MPIJOB_WORKER, "worker")
TRAINJOB_LAUNCHER = Launcher(
    MPIJOB_LAUNCHER,
    "a hostfile in /etc/mpi is set",
    is_trainjob,
    lambda environ: World(MPIJOB_LAUNCHER, "a hostfile in /etc/mpi is set", local_size=read_count(environ)),
)
