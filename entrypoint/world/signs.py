"""Signs that a process should be one of many: a training that would start alone by mistake is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.addresses import is_loopback
from entrypoint.errors import Refusal
from entrypoint.numbers import number, read_range, whole
from entrypoint.world import mpi
from entrypoint.world.model import ALONE, MPIJOB_LAUNCHER, TORCHRUN_WORKER, unbracket
from entrypoint.world.schedulers import list_hosts
from entrypoint.world.slurm import is_in_step
from entrypoint.world.table import detect
from entrypoint.world.torchrun import INDEX, parse_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.world.model import World


def count_nodes(environ: Mapping[str, str], name: str) -> int | None:
    """Return the largest number of nodes of `2` or `1:4`; None if it is not set. Raise Refusal for anything else."""
    text = environ.get(name, "").strip()
    return parse_nodes(text)[1] if text else None


def count_numbered(environ: Mapping[str, str], name: str) -> int | None:
    """Return the number of nodes where this one has a number, which no operator sets without a master."""
    numbered = environ.get("PET_NODE_RANK", "").strip() or environ.get(INDEX, "").strip()
    return count_nodes(environ, name) if numbered else None


def read_number(environ: Mapping[str, str], name: str) -> int | None:
    """Return a number; None for anything else: other programs may use this name as well."""
    return whole(environ.get(name, ""))


def read_strict_number(environ: Mapping[str, str], name: str) -> int | None:
    """Return a number; None if it is not set, or -1, which meant alone before torchrun. Raise Refusal for the rest."""
    return None if environ.get(name, "").strip() == "-1" else number(environ, name)


def read_first(environ: Mapping[str, str], name: str) -> int | None:
    """Return a rank where the master is somewhere on the network, and nothing says how many there are; else None."""
    host = unbracket(environ.get("MASTER_ADDR", ""))
    silent = not host or is_loopback(host) or bool(environ.get("WORLD_SIZE", "").strip())
    return None if silent else read_strict_number(environ, name)


def read_pmi_port(environ: Mapping[str, str], name: str) -> int | None:
    """Return the port of `node0:39063`; None for anything else."""
    return whole(environ.get(name, "").rpartition(":")[2])


def count_hosts(environ: Mapping[str, str], name: str) -> int:
    """Count the hosts in SageMaker's `["algo-1", "algo-2"]`."""
    return len(set(list_hosts(environ.get(name, ""))))


def count_lsf_hosts(environ: Mapping[str, str], name: str) -> int:
    """Count the hosts in LSF's `hostA 4 hostB 4`."""
    return len(set(environ.get(name, "").split()[::2]))


def count_tf_tasks(environ: Mapping[str, str], name: str) -> int | None:
    """Count the tasks that train in TF_CONFIG: {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": ...}."""
    text = environ.get(name, "")
    if not text:
        return None
    import json  # read_stack has it loaded already

    try:
        cluster = json.loads(text)["cluster"]
        return sum(len(tasks) for name, tasks in cluster.items() if name not in ("ps", "evaluator"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


class Sign(NamedTuple):
    """A variable which says that there should be other processes, from this value on, and what to set to find them.

    read: its value as a number, None where it says nothing. What somebody sets by hand in a pod is refused where it is
    no number: Kubernetes leaves `$(N)` as it is where N is not defined, and every node would train alone.
    allocation: it says how large an allocation is, in which somebody may start one process.
    """

    name: str
    least: int
    remedy: str
    read: Callable[[Mapping[str, str], str], int | None] = read_number
    allocation: bool = False


MASTER = (
    "export MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE (RANK from 0, WORLD_SIZE = number of nodes) on every node"
)
EVERY_NODE = "PET_NNODES, PET_NODE_RANK (from 0) and PET_MASTER_ADDR on every node"
NODES = f"export {EVERY_NODE}"
JOB = "add a Master replica or an elasticPolicy to the PyTorchJob, or export PET_RDZV_ENDPOINT=HOST:PORT"
SRUN = "start the ranks with srun, or with mpirun: srun IMAGE-COMMAND, or sbatch with --ntasks=1"
MPIRUN = "start the ranks with mpirun, which sets both the rank and the size"
PORT = "leave out -pmi-port, with which mpirun sets neither PMI_RANK nor PMI_SIZE"
PMIX = "start the ranks with mpirun, or with srun: PMIx gives a rank, but no size"
PBS = (
    "export MASTER_ADDR=$(head -n1 $PBS_NODEFILE) and start the ranks with mpirun: "
    "mpirun -f $PBS_NODEFILE -n 2 -ppn 1 multinode smoke"
)
LSF = (
    "export MASTER_ADDR=${LSB_MCPU_HOSTS%% *} and start the ranks with mpirun, or one on each host with blaunch and "
    f"{EVERY_NODE}"
)
BATCH = "start the container by a multi-node parallel job, which sets AWS_BATCH_JOB_NODE_INDEX as well"
SIGNS = (
    Sign("PET_NNODES", 2, "export PET_MASTER_ADDR=HOST on every node: the one with PET_NODE_RANK=0", count_numbered),
    Sign("PET_NNODES", 2, JOB, count_nodes),
    Sign("PET_NODE_RANK", 1, "export PET_MASTER_ADDR and PET_NNODES as well", read_strict_number),
    Sign("WORLD_SIZE", 2, MASTER, read_strict_number),
    Sign("RANK", 1, MASTER, read_strict_number),
    Sign("RANK", 0, MASTER, read_first),
    Sign("LOCAL_RANK", 1, "export RANK, WORLD_SIZE and MASTER_ADDR as well, or start the ranks with torchrun"),
    Sign("NUM_NODES", 2, NODES),
    Sign("NODE_RANK", 1, NODES),
    Sign("SLURM_STEP_NUM_TASKS", 2, SRUN),
    Sign("SLURM_NTASKS", 2, SRUN, allocation=True),
    Sign("SLURM_JOB_NUM_NODES", 2, SRUN, allocation=True),
    Sign("SLURM_PROCID", 1, SRUN),
    Sign("PMI_SIZE", 2, MPIRUN),
    Sign("PMI_RANK", 1, MPIRUN),
    Sign("PMI_PORT", 1, PORT, read_pmi_port),
    Sign("OMPI_COMM_WORLD_SIZE", 2, MPIRUN),
    Sign("OMPI_COMM_WORLD_RANK", 1, MPIRUN),
    Sign("MV2_COMM_WORLD_SIZE", 2, MPIRUN),
    Sign("MV2_COMM_WORLD_RANK", 1, MPIRUN),
    Sign("PMIX_RANK", 1, PMIX),
    Sign("PRTE_LAUNCHED", 1, PMIX, allocation=True),  # mpirun -n 1 sets it too, with a size
    Sign("PALS_RANKID", 1, "start the ranks with mpiexec of PALS, which sets PMI_RANK and PMI_SIZE as well"),
    Sign("FLUX_JOB_SIZE", 2, "start the ranks with flux run, which sets FLUX_TASK_RANK as well"),
    Sign("FLUX_TASK_RANK", 1, "start the ranks with flux run, which sets FLUX_JOB_SIZE as well"),
    Sign("HOROVOD_SIZE", 2, "start the ranks with horovodrun, which sets HOROVOD_RANK as well"),
    Sign("HOROVOD_RANK", 1, "start the ranks with horovodrun, which sets HOROVOD_SIZE as well"),
    Sign("AWS_BATCH_JOB_NUM_NODES", 2, BATCH),
    Sign("AWS_BATCH_JOB_NODE_INDEX", 1, BATCH),
    Sign("SM_HOSTS", 2, NODES, count_hosts),
    Sign("TF_CONFIG", 2, f"use a PyTorchJob in place of a TFJob, or {NODES}", count_tf_tasks),
    Sign("PBS_NUM_NODES", 2, PBS, allocation=True),
    Sign("PBS_VNODENUM", 1, PBS),
    Sign("LSB_MCPU_HOSTS", 2, LSF, count_lsf_hosts, allocation=True),
)


def check_alone(environ: Mapping[str, str], world: World) -> None:
    """Raise Refusal for training alone, or in a world of another size, where a variable says how many there should be.

    A process that mpirun has started as the only one counts as alone. That was asked for, whatever the size of the
    allocation around it.
    """
    check_insisted(environ, world)
    one = detect(environ) in mpi.ONE  # also where --nproc has made it a world of several here
    if world.launcher != ALONE and not one:
        return
    sign = find_sign(environ, allocated=one or is_in_step(environ))
    if sign is not None:
        fact = "this process is alone, but was meant to be one of many"
        raise Refusal(fact, f"{sign.name}={environ[sign.name]}", f"{sign.remedy}; or unset {sign.name} to train alone")


def check_typed(environ: Mapping[str, str], world: World, script: str) -> None:
    """Raise Refusal for a typed torchrun whose world is not the one that was meant; environ: without its options.

    Below mpirun or srun one torchrun for each node is right if they meet; those that do not meet train a model each.
    """
    check_insisted(environ, world, typed=True)
    launcher = detect(environ)
    if not launcher.started or launcher.kind == TORCHRUN_WORKER or world.several_nodes:
        return
    ranks = f"multinode {script} without torchrun, which is one rank in each of these processes"
    nodes = "one torchrun on each node, with --nnodes and --rdzv_endpoint"
    remedy = f"{ranks}; or {nodes}; or unset these variables to train alone"
    raise Refusal("torchrun would train a model of its own in each process of a launcher", launcher.why, remedy)


def check_mpijob(environ: Mapping[str, str], program: str, script: str) -> None:
    """Raise Refusal for a program that would train in the launcher of an MPIJob, while its workers wait for ranks."""
    launcher = detect(environ)
    if launcher.kind == MPIJOB_LAUNCHER:
        fact = f"{program} would train in the launcher of an MPIJob, without its workers"
        remedy = f"multinode {script} without {program}, which starts ranks on the hosts of the hostfile"
        raise Refusal(fact, launcher.why, f"{remedy}; or unset what is named to train in this pod alone")


def check_insisted(environ: Mapping[str, str], world: World, *, typed: bool = False) -> None:
    """Raise Refusal for a world whose sizes have none in common with MULTINODE_WORLD_SIZE.

    An elastic world gets its size where its nodes meet, and is refused by its ranks (`may_differ`). typed: whether a
    torchrun was typed, whose options count.
    """
    (least, most), (low, high) = read_insisted(environ), world.sizes
    if least <= high and (most is None or low <= most):
        return
    word, least = ("smaller", least) if most is None or high < least else ("larger", most)
    remedy = f"start {least} processes, or unset MULTINODE_WORLD_SIZE"
    if typed:
        remedy = f"start {least} processes in all by --nnodes and --nproc_per_node, or unset MULTINODE_WORLD_SIZE"
    elif world.launcher == ALONE:
        remedy = f"{MASTER}, or --nproc {least} for all on this one; or unset MULTINODE_WORLD_SIZE"
    elif world.launcher == TORCHRUN_WORKER:
        count = -(-least // (world.local_size or 1))
        elastic = f"PET_NNODES={count}, torchrun --nnodes {count} or --elastic {count}:{count}"
        remedy = f"start {least} processes, in an elastic job by {elastic}; or unset MULTINODE_WORLD_SIZE"
    raise Refusal(f"the world is {word} than MULTINODE_WORLD_SIZE", f"{world.asked} of {least}", remedy)


def may_differ(environ: Mapping[str, str], world: World) -> bool:
    """Return whether a world that passes may still become smaller or larger than MULTINODE_WORLD_SIZE."""
    (least, most), (low, high) = read_insisted(environ), world.sizes
    return low < least or (most is not None and high > most)


def read_insisted(environ: Mapping[str, str]) -> tuple[int, int | None]:
    """Return the smallest and the largest number of MULTINODE_WORLD_SIZE, `2`, `1:4` or `2:`, which has no largest."""
    text = environ.get("MULTINODE_WORLD_SIZE", "").strip() or "1:"
    size = read_range(text)
    if size is None:
        remedy = "export MULTINODE_WORLD_SIZE=2, or 1:4, or unset it"
        raise Refusal("MULTINODE_WORLD_SIZE is neither a number above 0 nor a range", repr(text), remedy)
    return size


def find_sign(environ: Mapping[str, str], *, allocated: bool = False) -> Sign | None:
    """Return the first variable which says that a process on its own was meant to be one of many.

    allocated: somebody has started one process within an allocation of more, whose variables are left out. Raise
    Refusal for a number that cannot be read.
    """
    for sign in SIGNS:
        value = None if allocated and sign.allocation else sign.read(environ, sign.name)
        if value is not None and value >= sign.least:
            return sign
    return None


def warn_indexed(environ: Mapping[str, str], world: World) -> list[str]:
    """Return a note for the pods of an Indexed Job but the first: a sweep may be meant, or one training."""
    index = whole(environ.get(INDEX, ""))
    if world.launcher != ALONE or not index:
        return []
    together = "to train together export PET_NNODES and PET_MASTER_ADDR=<name of the first pod>.<name of the service>"
    return [f"pod {index} of an Indexed Job trains alone; {together}"]
