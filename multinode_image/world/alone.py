"""One rule for a process that is alone by mistake: a variable says that there are several nodes, ranks or tasks.

MULTINODE_WORLD_SIZE=1 says that one process is right, whatever they say.
"""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.errors import Refusal
from multinode_image.reading import read_range, whole
from multinode_image.settings import SIZE, may_work_apart
from multinode_image.world.model import ALONE, EVERY_NODE, MPIJOB_LAUNCHER, TORCHRUN, TORCHRUN_WORKER, World
from multinode_image.world.ranks import is_in_step
from multinode_image.world.signs import list_variables
from multinode_image.world.table import SCHEDULERS
from multinode_image.world.torchrun import INDEX

BY_HAND = (
    "export MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE (RANK from 0, WORLD_SIZE = number of nodes) on every node"
)


def check_required_size(environ: Mapping[str, str], world: World) -> None:
    """Raise Refusal for a world that cannot have the size in MULTINODE_WORLD_SIZE."""
    (least, most), (low, high) = read_required_size(environ), world.sizes
    if least <= high and (most is None or low <= most):
        return
    word, least = ("smaller", least) if most is None or high < least else ("larger", most)
    remedy = f"start {least} processes"
    if world.launcher == ALONE and not world.outer:
        remedy = f"{BY_HAND}, or --nproc {least} for all on this one"
    elif world.outer or world.launcher in (TORCHRUN, TORCHRUN_WORKER):
        local = world.local_size or 1
        nodes = -(-least // local)
        options = f"torchrun --nnodes {nodes} or --elastic {nodes}:{nodes}"
        remedy += f" in all: PET_NNODES={nodes}, {options}, of {local} each"
    raise Refusal(f"the world is {word} than {SIZE}", f"{world.size_text} of {least}", f"{remedy}, or unset {SIZE}")


def may_differ(environ: Mapping[str, str], world: World) -> bool:
    """Return whether an elastic world may still become smaller or larger than MULTINODE_WORLD_SIZE."""
    (least, most), (low, high) = read_required_size(environ), world.sizes
    return low < least or (most is not None and high > most)


def read_required_size(environ: Mapping[str, str]) -> tuple[int, int | None]:
    """Return the least and the most that MULTINODE_WORLD_SIZE allows: `2`, `1:4`, or `2:`, which has no most."""
    text = environ.get(SIZE, "").strip() or "1:"
    size = read_range(text)
    if size is None:
        remedy = f"export {SIZE}=2, or 1:4, or unset it"
        raise Refusal(f"{SIZE} is neither a number above 0 nor a range", repr(text), remedy)
    return size


def write_required_size(world: World) -> str:
    """Return what MULTINODE_WORLD_SIZE is for a world: its ranks, or with torchrun on several nodes how many at least.

    Each node counts its ranks itself, and may have more or fewer than this one: of another it is known that it has one.
    """
    if world.size is not None or not world.several_nodes:
        return world.size_text
    return f"{(world.local_size or 1) + world.nodes[0] - 1}:"


# One rule for a process that is alone by mistake: a variable says that there are several nodes, ranks or tasks.
#
# MULTINODE_WORLD_SIZE=1 says that one process is right, whatever they say.

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
    if world.several_nodes or may_work_apart(environ):
        return
    if outer and outer.started and outer.kind != TORCHRUN_WORKER:
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
