"""One rule for a process that is alone by mistake: a variable says that there are several nodes, ranks or tasks.

MULTINODE_WORLD_SIZE=1 says that one process is right, whatever they say.
"""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.errors import Refusal
from multinode_image.numbers import whole
from multinode_image.settings import SIZE
from multinode_image.world.model import ALONE, EVERY_NODE, MPIJOB_LAUNCHER, TORCHRUN, TORCHRUN_WORKER, World
from multinode_image.world.signs import list_variables
from multinode_image.world.size import BY_HAND, check_required_size, read_required_size
from multinode_image.world.slurm import is_in_step
from multinode_image.world.table import SCHEDULERS
from multinode_image.world.torchrun import INDEX

# How ranks are started, by the beginning of the variable's name.
REMEDIES = {
    "PET_": f"{EVERY_NODE}; a PyTorchJob needs a Master replica or an elasticPolicy",
    **{scheduler.prefix: scheduler.remedy for scheduler in SCHEDULERS if scheduler.remedy},
    **dict.fromkeys(("WORLD_SIZE", "RANK", "LOCAL_RANK"), BY_HAND),
    "": f"start the ranks with the launcher that has set this; or {EVERY_NODE}",
}


def check(environ: Mapping[str, str], world: World) -> None:
    """Raise Refusal for training alone, also as mpirun's only rank, or in another world than variables ask for."""
    check_required_size(environ, world)
    if not (world.launcher == ALONE or world.started_alone) or read_required_size(environ) == (1, 1):
        return
    names = list_variables(environ, allocated=world.started_alone or is_in_step(environ))
    if names:
        start = next(remedy for prefix, remedy in REMEDIES.items() if names[0].startswith(prefix))
        remedy = f"{start}; or unset {' '.join(names)}, or export {SIZE}=1, to train alone"
        value = f"{names[0]}={environ[names[0]]}"
        raise Refusal("this process is alone, but was meant to be one of many", value, remedy)


def check_program(environ: Mapping[str, str], world: World, program: str, script: str) -> None:
    """Raise Refusal for a typed torchrun, accelerate or Python that would train apart from others of its launcher.

    In the launcher of an MPIJob the workers wait for ranks; in processes of mpirun or srun each would train a model.
    """
    outer = world.outer
    if MPIJOB_LAUNCHER in (world.launcher, outer.kind if outer else ""):
        fact = f"{program} would train in the launcher of an MPIJob, without its workers"
        remedy = f"multinode {script} without {program}, which starts ranks on the hosts of the hostfile"
        value = outer.why if outer else world.why
        raise Refusal(fact, value, f"{remedy}; or unset what is named to train in this pod alone")
    if program != TORCHRUN:
        return
    check_required_size(environ, world)
    if outer and outer.started and outer.kind != TORCHRUN_WORKER and not world.several_nodes:
        ranks = f"multinode {script} without torchrun, which is one rank in each of these processes"
        nodes = "one torchrun on each node, with --nnodes and --rdzv_endpoint"
        remedy = f"{ranks}; or {nodes}; or unset these variables to train alone"
        raise Refusal("torchrun would train a model of its own in each process of a launcher", outer.why, remedy)


def warn_indexed(environ: Mapping[str, str], world: World) -> list[str]:
    """Return a note for the pods of an Indexed Job but the first: a sweep may be meant, or one training."""
    index = whole(environ.get(INDEX, ""))
    if world.launcher != ALONE or not index:
        return []
    together = "to train together export PET_NNODES and PET_MASTER_ADDR=<name of the first pod>.<name of the service>"
    return [f"pod {index} of an Indexed Job trains alone; {together}"]
