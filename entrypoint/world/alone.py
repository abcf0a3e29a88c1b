"""One rule for a process that is alone by mistake: a variable says that there are several nodes, ranks or tasks.

The rule knows the words in a variable's name, and few products. It leaves out words that have another meaning in CI
systems, in notebooks and in services: `CI_NODE_TOTAL` and `SLURM_ARRAY_TASK_COUNT` count jobs that have nothing to do
with each other, `NUM_WORKERS` those of a data loader, `ALLOWED_HOSTS` and `ELASTICSEARCH_HOSTS` name no ranks.
MULTINODE_WORLD_SIZE=1 says that one process is right, whatever they say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import translate

from entrypoint.addresses import is_loopback, unbracket
from entrypoint.errors import Refusal
from entrypoint.numbers import number, whole
from entrypoint.world.model import ALONE, EVERY_NODE, MPIJOB_LAUNCHER, TORCHRUN, TORCHRUN_WORKER, World, split_hosts
from entrypoint.world.size import BY_HAND, SIZE, check_required_size, read_required_size
from entrypoint.world.slurm import is_in_step
from entrypoint.world.table import LAUNCHERS, SLURM_TASK
from entrypoint.world.torchrun import INDEX, parse_nodes

# How many there are, from two on: what launchers call it, and NNODES, SLURM_JOB_NUM_NODES, N_TASKS.
SIZES = "|".join(name for launcher in LAUNCHERS for name in (launcher.size, *launcher.nodes) if name)
IS_COUNT = re.compile(
    rf"{SIZES}|"
    r"(.*_)?((N|N_|NUM_?|TOTAL_)(NODES|RANKS|HOSTS|MACHINES)|NTASKS|N_TASKS|(NODES|MACHINES)_NUM|(?<!PER_)NODE_COUNT)"
    r"|.*_NUM_TASKS|FLUX_JOB_SIZE|HOROVOD_SIZE|(?!LOCAL_|.*_LOCAL_)(.*_)?WORLD_SIZE"
)
# A number of what may be anything, workers of a DataLoader too, counts beside the number of this one: MLP_WORKER_NUM
# with MLP_ROLE_INDEX, PADDLE_TRAINERS_NUM with PADDLE_TRAINER_ID, JAX_NUM_PROCESSES with JAX_PROCESS_ID. Tasks and jobs
# are numbered where they have nothing to do with each other.
KIND = "(?:WORKER|TRAINER|MACHINE|PROCESS|SLICE)"
IS_COUNT_BESIDE = re.compile(rf"(.+_)(?:{KIND}(?:E?S)?_(?:NUM|COUNT)|(?:NUM|TOTAL)_{KIND}(?:E?S)?)")
BESIDE = re.compile(rf"(?:ROLE|{KIND})_(?:INDEX|ID|RANK)")
# The number of a node counts beside who leads, where nothing counts them: AWS_BATCH_JOB_NODE_INDEX with
# AWS_BATCH_JOB_MAIN_NODE_INDEX, in a container that was given a part of its variables.
IS_INDEX, LEADS = re.compile(r"(.+_)NODE_INDEX"), re.compile(r"(?:MAIN|MASTER|LEADER|HEAD)_.+")
# Where a description in JSON has its hosts, by role or not, and which of them this one is (TF_CONFIG of TensorFlow).
HOSTS, PLACES = ("cluster", "hosts", "nodes", "workers"), ("index", "rank")
# Whose name says nothing about this one: the first of servers, as of a database.
FIRST = re.compile(r"(?i).*(main|master|leader|head|primary|seed).*")
# More nodes are those of a graph: NUM_NODES=2708 is the data set Cora. A scheduler that has more counts its tasks, too.
MOST_NODES = 1000
# Which of several this one is, from one on; the rank of LORA_RANK is none.
RANKS = "|".join(launcher.rank for launcher in LAUNCHERS if launcher.started and launcher.rank)
IS_RANK = re.compile(
    rf"{RANKS}|(.*_)?(NODE|LOCAL|GLOBAL|WORLD|TASK|WORKER|MACHINE|HOST|PMIX|PALS|HOROVOD)_RANK(ID)?|PBS_VNODENUM"
)
# Who they are, if more than one: SM_HOSTS, and TPU_WORKER_HOSTNAMES, LSB_MCPU_HOSTS.
HOSTS_OF_ROWS = "|".join(translate(launcher.hosts) for launcher in LAUNCHERS if launcher.hosts)
IS_LIST = re.compile(
    rf"{HOSTS_OF_ROWS}|LSB_(MCPU_)?HOSTS"
    r"|(.*_)?((NODE|WORKER|TASK|TRAINER|MACHINE)S?_(IPS|HOSTS|HOSTNAMES|ADDRS|ADDRESSES)|NODE_?LIST|HOST_?LIST)"
)
# An entry with a port, or an address: a list of servers that are asked for something, such as KAFKA_HOST_LIST.
SERVER = re.compile(r"[^:]*:\d+|.*://.*")
# mpirun -pmi-port and prterun give a process neither a rank nor a size under a name that others have.
STARTED = {"PMI_PORT": re.compile(r".*:[1-9][0-9]*"), "PRTE_LAUNCHED": re.compile("1")}
# What counts the nodes of an allocation, or the slots of an mpirun, and not the processes that were started there.
ALLOCATION = ("SLURM_", "PBS_", "LSB_", "PRTE_", "OMPI_", "FLUX_", "NHOSTS")
# What somebody sets by hand, and may mistype.
TYPED_BY_PEOPLE = ("PET_NODE_RANK", "RANK", "WORLD_SIZE")
BY_MPIRUN = "start the ranks with mpirun, which gives each a rank and a size"
# How ranks are started, by the beginning of the variable's name.
REMEDIES = {
    "PET_": f"{EVERY_NODE}; a PyTorchJob needs a Master replica or an elasticPolicy",
    "SLURM_": "start the ranks with srun, or with mpirun: srun IMAGE-COMMAND, or sbatch with --ntasks=1",
    "PBS_": f"export MASTER_ADDR=$(head -n1 $PBS_NODEFILE) and {BY_MPIRUN}: mpirun -f $PBS_NODEFILE -n 2 -ppn 1 ...",
    "LSB_": f"export MASTER_ADDR=${{LSB_MCPU_HOSTS%% *}} and {BY_MPIRUN}; or with blaunch, and {EVERY_NODE}",
    **dict.fromkeys(("PMI", "PALS_", "PRTE_", "OMPI_", "MV2_"), BY_MPIRUN),
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


def list_variables(environ: Mapping[str, str], *, allocated: bool = False) -> list[str]:
    """List the variables which say that there are several nodes, ranks or tasks, those that count them first.

    allocated: whether one process was started in an allocation, whose own variables do not count. Raise Refusal for a
    number that cannot be read.
    """
    for name in TYPED_BY_PEOPLE:
        if environ.get(name, "").strip() != "-1":  # alone, before there was torchrun
            number(environ, name)
    found = ["RANK"] if is_first_of_many(environ) else []
    for name in sorted(environ, key=lambda name: (not IS_COUNT.fullmatch(name), not IS_RANK.fullmatch(name), name)):
        counts = not allocated or name == SLURM_TASK.size or not name.startswith(ALLOCATION)
        if counts and (says_several(name, environ[name]) or numbers_one(name, environ) or lists_several(environ[name])):
            found.append(name)
    return found


def says_several(name: str, text: str) -> bool:
    """Return whether a variable says that there are several nodes, ranks or tasks."""
    if name == SIZE or not text.strip():
        return False
    if name == "PET_NNODES":
        return parse_nodes(text)[1] > 1
    if IS_COUNT.fullmatch(name) or IS_RANK.fullmatch(name):
        if text.strip().startswith("$("):  # Kubernetes does not know the variable in the parentheses
            raise Refusal(f"{name} is not a number", repr(text), f"define the variable above {name} in env of the pod")
        count = whole(text.strip(" \t\n\"'")) or 0  # podman's --env-file keeps quotes
        if IS_COUNT.fullmatch(name):
            return count > 1 and (count <= MOST_NODES or "NODES" not in name)
        return count > 0
    if IS_LIST.fullmatch(name):
        hosts = [host for host in split_hosts(text) if not host.isdigit()]  # LSF writes a number behind each host
        return len(hosts) > 1 and not any(map(SERVER.fullmatch, hosts))
    return name in STARTED and bool(STARTED[name].fullmatch(text.strip()))


def numbers_one(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether a variable and another one with the same beginning say which of several this is."""
    if (index := IS_INDEX.fullmatch(name)) and whole(environ[name]) is not None:
        beside = [each for each in environ if each.startswith(index[1]) and environ[each].strip()]
        counted = any(IS_COUNT.fullmatch(each) and whole(environ[each]) for each in beside)
        return not counted and any(LEADS.fullmatch(each, index.end(1)) for each in beside)
    found, count = IS_COUNT_BESIDE.fullmatch(name), whole(environ[name]) or 0
    if found is None or "LOCAL_" in name or count < 2:
        return False
    beside = [each for each in environ if each.startswith(found[1]) and BESIDE.fullmatch(each, found.end(1))]
    return any((place := whole(environ[each])) is not None and place < count for each in beside)


def lists_several(text: str) -> bool:
    """Return whether a text is a JSON object that lists several hosts, and says which of them this one is."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        rows = list(walk(json.loads(text)))
    except (ValueError, RecursionError):
        return False
    lists = [value for keys, value in rows if isinstance(value, list) and not set(keys).isdisjoint(HOSTS)]
    hosts = {host for each in lists for host in each if isinstance(host, str)}
    return len(hosts) > 1 and any(
        value in hosts and not FIRST.fullmatch(keys[-1])
        if isinstance(value, str)
        else keys[-1] in PLACES and value in range(len(hosts)) and not isinstance(value, bool)
        for keys, value in rows
    )


def walk(value: Mapping[str, object], *above: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield what is in an object of JSON, and in the objects in it, with the keys that lead there."""
    for key, each in value.items():
        if isinstance(each, dict):
            yield from walk(each, *above, key)
        else:
            yield (*above, key), each


def is_first_of_many(environ: Mapping[str, str]) -> bool:
    """Return whether RANK is 0, the master is somewhere on the network, and nothing says how many there are."""
    host = unbracket(environ.get("MASTER_ADDR", ""))
    silent = not host or is_loopback(host) or bool(environ.get("WORLD_SIZE", "").strip())
    return not silent and whole(environ.get("RANK", "")) == 0


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
