"""The order in which launchers are looked for, with its reasons: who started this process, and in which world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.errors import Refusal
from entrypoint.world import kubeflow, mpi, schedulers, slurm, torchrun
from entrypoint.world.model import ALONE, SLURM, Launcher, World

if TYPE_CHECKING:
    from collections.abc import Mapping

SRUN = "srun --ntasks-per-node N"
NO_LAUNCHER = "no launcher's variables are set"

# The order is the policy. What is set for one process only comes before what is set for a whole pod, because a rank
# inherits the variables of the pod it runs in: torchrun and mpirun are used inside pods and Slurm allocations, never
# the other way round. RANK alone proves nothing: PyTorchJob sets it to the number of the pod.
# A world of one that MPI has made may be left over by whatever started a shell, so it comes after all others.
ORDER = (
    torchrun.WORKER,
    slurm.STEP_WITH_PMI,
    *mpi.SEVERAL,
    schedulers.FLUX_TASK,
    schedulers.HOROVODRUN,
    slurm.STEP,
    kubeflow.ELASTIC,
    kubeflow.WITH_MASTER,
    # What somebody sets by hand has the names that an operator sets in a pod, so it is looked for after those.
    torchrun.WORKER_BY_HAND,
    torchrun.BY_HAND,
    schedulers.AWS_BATCH,
    schedulers.SAGEMAKER_JOB,
    schedulers.VOLCANO,
    *mpi.ONE,
    # The role in an MPIJob is a variable of the pod; a rank in it has been found above.
    kubeflow.LAUNCHER,
    kubeflow.WORKER,
    kubeflow.TRAINJOB_LAUNCHER,
    Launcher(
        ALONE, NO_LAUNCHER, lambda environ: True,
        lambda environ: World(ALONE, NO_LAUNCHER, local_size=torchrun.read_count(environ)),
    ),
)  # fmt: skip


def detect(environ: Mapping[str, str]) -> Launcher:
    """Return the first launcher in the order whose variables are there; the last one needs none."""
    return next(launcher for launcher in ORDER if launcher.proof(environ))


def read_world(environ: Mapping[str, str], launcher: Launcher, nproc: int | None) -> World:
    """Return the world of a launcher; nproc is what the user asked for with --nproc, over PET_NPROC_PER_NODE.

    Raise Refusal where the launcher's variables contradict each other, or where it has counted the processes already.
    """
    if nproc is None:
        return launcher.world(environ)
    if launcher.started:
        commands = "mpirun -n N -ppn N, torchrun --nproc_per_node N"
        remedy = f"give the number to the launcher instead: {SRUN if launcher.kind == SLURM else commands}"
        raise Refusal("--nproc has no meaning in a process that a launcher started", launcher.why, remedy)
    world = launcher.world({**environ, torchrun.COUNT: ""})
    if world.rank is not None:  # of a world of one, which starts others
        return World(ALONE, launcher.why, local_size=nproc)
    return world._replace(local_size=nproc)
