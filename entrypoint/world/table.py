"""Which launcher started this process, by the order in which they are looked for, and the world that it describes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from entrypoint.errors import Refusal
from entrypoint.machine.network import own_address
from entrypoint.world import kubeflow, mpi, others, slurm, torchrun
from entrypoint.world.model import ALONE, NO_LAUNCHER, SLURM, THIS_NODE, Launcher, World, name_job

# Variables that Kubernetes sets in every pod of a namespace with a Service named `master`, `pet-master`, `pmi` or
# `multinode-ssh`: MASTER_PORT=tcp://10.0.0.1:80.
LINKS = ("MASTER_PORT", "PET_MASTER_PORT", "PMI_PORT", "MULTINODE_SSH_PORT")
SRUN = "srun --ntasks-per-node N"

# The order is the policy. What is set for one process only comes before what is set for a whole pod, because a rank
# inherits the variables of the pod it runs in: torchrun and mpirun are used inside pods and Slurm allocations, never
# the other way round. RANK alone proves nothing: PyTorchJob sets it to the number of the pod.
# A world of one that MPI has made may be left over by whatever started a shell, so it comes after all others.
ORDER = (
    torchrun.WORKER,
    slurm.STEP_WITH_PMI,
    *mpi.SEVERAL,
    others.FLUX_TASK,
    others.HOROVODRUN,
    slurm.STEP,
    kubeflow.ELASTIC,
    kubeflow.WITH_MASTER,
    # What somebody sets by hand has the names that an operator sets in a pod, so it is looked for after those.
    torchrun.WORKER_BY_HAND,
    torchrun.BY_HAND,
    *others.NODES,
    *mpi.ONE,
    # The role in an MPIJob is a variable of the pod; a rank in it has been found above.
    kubeflow.LAUNCHER,
    kubeflow.WORKER,
    kubeflow.TRAINJOB_LAUNCHER,
    torchrun.make_launcher_without_ranks(ALONE, NO_LAUNCHER, lambda environ: True),
)


def complete(environ: Mapping[str, str], read: Callable[[str], str | None]) -> dict[str, str]:
    """Return the variables without those of Services, and with what launchers say in files; read: returns a text."""
    environ = {name: value for name, value in environ.items() if name not in LINKS or "://" not in value}
    return {**environ, **others.read_files(environ, read)}


def find_here() -> str:
    """Return the address by which other nodes reach this one, or its name."""
    return own_address(None) or socket.gethostname()


def find_launcher(environ: Mapping[str, str]) -> Launcher:
    """Return the first launcher in the order whose variables are there; the last one needs none."""
    return next(launcher for launcher in ORDER if launcher.proof(environ))


def detect(
    environ: Mapping[str, str],
    nproc: int | None = None,
    *,
    launcher: Launcher | None = None,
    typed: Mapping[str, str] | None = None,
    task: str = "",
    here: Callable[[], str] = find_here,
) -> World:
    """Return the world of this process; raise Refusal where variables contradict each other, or --nproc a launcher.

    nproc: the number in --nproc; launcher: what started this process, if that is known; typed: the PET_ variables of a
    typed torchrun, which has a world of its own; task: what is trained; here: finds this node's address.
    """
    launcher = launcher or find_launcher(environ)
    if typed is not None:
        world = torchrun.read_torchrun(typed, nproc)._replace(outer=launcher)
        environ = {**environ, **typed}
    else:
        world = read_world(environ, launcher, nproc)
    if world.master == THIS_NODE:
        world = world._replace(master=here())
    return name_job(world, environ, task)


def read_world(environ: Mapping[str, str], launcher: Launcher, nproc: int | None) -> World:
    """Return the world of a launcher, with the number in --nproc; raise Refusal as `detect`."""
    if nproc is None:
        return launcher.world(environ)
    if launcher.started:
        commands = "mpirun -n N -ppn N, torchrun --nproc_per_node N"
        remedy = f"give the number to the launcher instead: {SRUN if launcher.kind == SLURM else commands}"
        raise Refusal("--nproc has no meaning in a process that a launcher started", launcher.why, remedy)
    world = launcher.world({**environ, torchrun.NPROC: ""})
    if world.rank is not None:  # of a world of one, which starts others
        return World(ALONE, launcher.why, local_size=nproc, started_alone=True)
    return world._replace(local_size=nproc)
