"""Which variables say that there are several nodes, ranks or tasks: of launchers, of schedulers, and any like theirs.

Beside the names of table.py the words in a name count. Left out are words that have another meaning in CI systems, in
notebooks and in services: `CI_NODE_TOTAL` and `SLURM_ARRAY_TASK_COUNT` count jobs that have nothing to do with each
other, `NUM_WORKERS` those of a data loader, `ALLOWED_HOSTS` and `ELASTICSEARCH_HOSTS` name no ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import translate

from multinode_image.errors import Refusal
from multinode_image.reading import is_loopback, number, parse_json, unbracket, whole
from multinode_image.settings import SIZE
from multinode_image.world.model import NodeLauncher, RankLauncher, split_hosts
from multinode_image.world.table import LAUNCHERS, SCHEDULERS
from multinode_image.world.torchrun import parse_nodes

# What launchers and schedulers call how many there are, which of them this one is, and who they are.
STARTED = [launcher.names for launcher in LAUNCHERS if isinstance(launcher, RankLauncher)]
NAMES = [*STARTED, *(scheduler.names for scheduler in SCHEDULERS)]
NODES = [launcher for launcher in LAUNCHERS if isinstance(launcher, NodeLauncher)]
COUNTS = [*(name for names in NAMES for name in (names.size, *names.nodes)), *(launcher.nodes for launcher in NODES)]
SIZES = "|".join(name for name in COUNTS if name)
RANKS = "|".join(names.rank for names in NAMES if names.rank)
HOSTLISTS = [
    *(translate(launcher.hosts) for launcher in LAUNCHERS if launcher.hosts),
    *(name for scheduler in SCHEDULERS for name in scheduler.hosts),
]
LISTS = "|".join(HOSTLISTS)
MARKS = {name: re.compile(text) for scheduler in SCHEDULERS for name, text in scheduler.marks.items()}
# What counts the nodes of an allocation, or the slots of an mpirun, and not the processes that were started there; and
# what counts these, although it has the same beginning.
ALLOCATES = tuple(scheduler.prefix for scheduler in SCHEDULERS if scheduler.allocates)
COUNTS_STARTED = {names.size for names in STARTED}
# How many there are, from two on: of any launcher, and as in NNODES, SLURM_JOB_NUM_NODES, N_TASKS.
IS_COUNT = re.compile(
    rf"{SIZES}|"
    r"(.*_)?((N|N_|NUM_?|TOTAL_)(NODES|RANKS|HOSTS|MACHINES)|NTASKS|N_TASKS|(NODES|MACHINES)_NUM|(?<!PER_)NODE_COUNT)"
    r"|.*_NUM_TASKS|(?!LOCAL_|.*_LOCAL_)(.*_)?WORLD_SIZE"
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
IS_RANK = re.compile(rf"{RANKS}|(.*_)?(NODE|LOCAL|GLOBAL|WORLD|TASK|WORKER|MACHINE|HOST)_RANK(ID)?")
# Who they are, if more than one: of any launcher, and as in TPU_WORKER_HOSTNAMES.
IS_LIST = re.compile(
    rf"{LISTS}"
    r"|(.*_)?((NODE|WORKER|TASK|TRAINER|MACHINE)S?_(IPS|HOSTS|HOSTNAMES|ADDRS|ADDRESSES)|NODE_?LIST|HOST_?LIST)"
)
# An entry with a port, or an address: a list of servers that are asked for something, such as KAFKA_HOST_LIST.
SERVER = re.compile(r"[^:]*:\d+|.*://.*")
# What somebody sets by hand, and may mistype.
TYPED_BY_PEOPLE = ("PET_NODE_RANK", "RANK", "WORLD_SIZE")


def list_variables(environ: Mapping[str, str], *, allocated: bool = False) -> list[str]:
    """List the variables which say that there are several nodes, ranks or tasks, those that count them first.

    allocated: whether one process was started in an allocation, whose own variables do not count. Raise Refusal for a
    number that cannot be read.
    """
    for name in TYPED_BY_PEOPLE:
        if environ.get(name, "").strip() != "-1":  # alone, before there was torchrun
            number(environ, name)
    names = ["RANK"] if is_first_of_many(environ) else []
    for name in sorted(environ, key=lambda name: (not IS_COUNT.fullmatch(name), not IS_RANK.fullmatch(name), name)):
        counts = not allocated or name in COUNTS_STARTED or not name.startswith(ALLOCATES)
        if counts and (says_several(name, environ[name]) or numbers_one(name, environ) or lists_several(environ[name])):
            names.append(name)
    return names


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
    return name in MARKS and bool(MARKS[name].fullmatch(text.strip()))


def numbers_one(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether a variable and another one with the same beginning say which of several this is."""
    if (index := IS_INDEX.fullmatch(name)) and whole(environ[name]) is not None:
        beside = [other for other in environ if other.startswith(index[1]) and environ[other].strip()]
        counted = any(IS_COUNT.fullmatch(other) and whole(environ[other]) for other in beside)
        return not counted and any(LEADS.fullmatch(other, index.end(1)) for other in beside)
    match, count = IS_COUNT_BESIDE.fullmatch(name), whole(environ[name]) or 0
    if match is None or "LOCAL_" in name or count < 2:
        return False
    beside = [other for other in environ if other.startswith(match[1]) and BESIDE.fullmatch(other, match.end(1))]
    return any((place := whole(environ[other])) is not None and place < count for other in beside)


def lists_several(text: str) -> bool:
    """Return whether a text is a JSON object that lists several hosts, and says which of them this one is."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        rows = list(walk(parse_json(text)))
    except ValueError:
        return False
    lists = [value for keys, value in rows if isinstance(value, list) and not set(keys).isdisjoint(HOSTS)]
    hosts = {host for values in lists for host in values if isinstance(host, str)}
    return len(hosts) > 1 and any(
        value in hosts and not FIRST.fullmatch(keys[-1])
        if isinstance(value, str)
        else keys[-1] in PLACES and value in range(len(hosts)) and not isinstance(value, bool)
        for keys, value in rows
    )


def walk(value: Mapping[str, object], *above: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield what is in an object of JSON, and in the objects in it, with the keys that lead there."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from walk(inner, *above, key)
        else:
            yield (*above, key), inner


def is_first_of_many(environ: Mapping[str, str]) -> bool:
    """Return whether RANK is 0, the master is somewhere on the network, and nothing says how many there are."""
    host = unbracket(environ.get("MASTER_ADDR", ""))
    silent = not host or is_loopback(host) or bool(environ.get("WORLD_SIZE", "").strip())
    return not silent and whole(environ.get("RANK", "")) == 0
