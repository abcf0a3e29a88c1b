"""Kubeflow: the pods of a PyTorchJob or a TrainJob, which start torchrun, and those of an MPIJob."""

from __future__ import annotations

from collections.abc import Mapping

from entrypoint.world.model import MPIJOB_LAUNCHER, MPIJOB_WORKER, all_set
from entrypoint.world.mpi import HOSTFILES
from entrypoint.world.torchrun import AT_ENDPOINT, AT_MASTER_ADDR, make_launcher_without_ranks, make_rendezvous

ROLE = "K_MPI_JOB_ROLE"


def has_master(environ: Mapping[str, str]) -> bool:
    """Return whether there is a rendezvous without elasticPolicy: Master and Workers, or Trainer v2."""
    return all_set("PET_MASTER_ADDR")(environ) or all_set("MASTER_ADDR", "PET_NNODES")(environ)


def is_trainjob(environ: Mapping[str, str]) -> bool:
    """Return whether this is the launcher of a TrainJob, in which a hostfile is mounted, but which has no role.

    Hostfiles of people are somewhere else (kubeflow/trainer, pkg/runtime/framework/plugins/mpi).
    """
    return any(environ.get(name, "").startswith("/etc/mpi/") for name in HOSTFILES)


def has_role(environ: Mapping[str, str], role: str) -> bool:
    """Return whether this pod has a role in an MPIJob: mpirun starts ranks in the workers, from the launcher."""
    return environ.get(ROLE) == role


ELASTIC = make_rendezvous(AT_ENDPOINT, all_set("PET_RDZV_ENDPOINT"))
WITH_MASTER = make_rendezvous(AT_MASTER_ADDR, has_master)
LAUNCHER = make_launcher_without_ranks(
    MPIJOB_LAUNCHER, f"{ROLE} is launcher", lambda environ: has_role(environ, "launcher")
)
WORKER = make_launcher_without_ranks(MPIJOB_WORKER, f"{ROLE} is worker", lambda environ: has_role(environ, "worker"))
TRAINJOB_LAUNCHER = make_launcher_without_ranks(MPIJOB_LAUNCHER, "a hostfile in /etc/mpi is set", is_trainjob)
