"""The ranks of a torchrun: each takes its share of the node's cores.

Torchrun starts its ranks with the program in PYTHON_EXEC instead of Python (torch/distributed/run.py), and all have its
mask. That would be one core if OpenMP bound the agent, which therefore gets no variable that binds threads.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from entrypoint.numbers import read_cpus, write_cpus
from entrypoint.processes import become
from entrypoint.settings import MARK, Setting, read_list, write_list
from entrypoint.tuning.share import Node, see_node, share
from entrypoint.tuning.threads import RANKS, Context, count_workers, find_share, may_bind_threads
from entrypoint.world.model import World
from entrypoint.world.starters import MPIRUN, SHELLS

# What takes the place of Python in the ranks of a torchrun that runs under the image's own Python.
RANK_PROGRAM = "/opt/multinode/rank"
# What is typed with a directory may have a Python of its own, which stays.
BINDABLE = ("torchrun", "python3", "python")
# For each rank: that it has to look how many they have become, and the cores of its node.
COUNTS, CORES = "MULTINODE_COUNTS", "MULTINODE_CORES"
# Variables that bind threads to processors, and values of them that do not (OpenMP 5.2, 21.2; Intel's and GNU's).
BINDINGS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET")
LOOSE = ("", "false", "none", "disabled")


class Handed(NamedTuple):
    """What the plan of a node hands on to its ranks.

    workers: those of oneCCL in each rank; bind: whether the threads of a rank may be bound.
    """

    node: Node
    workers: int
    bind: bool


def write_handed(context: Context) -> str:
    """Return the cores of this node as a text for its ranks."""
    node, left_out = see_node(context.machine), list_bindings(context)
    ranks = context._replace(  # in a shell nobody knows yet how many there will be
        world=context.world._replace(size=max(2, context.world.sizes[1])),
        process=context.process._replace(runs=RANKS),
        environ={name: value for name, value in context.environ.items() if name not in left_out},
    )
    numa = [" ".join(map(write_cpus, cores)) for cores in node.numa]
    rest = {"workers": count_workers(ranks), "bind": may_bind_threads(ranks)}
    return json.dumps({**node._asdict(), "numa": numa, **rest})


def read_handed(text: str) -> Handed | None:
    """Return what is in a text of `write_handed`; None for any other text."""
    try:
        found = json.loads(text)
        numa = tuple(tuple(map(read_cpus, cores.split())) for cores in found["numa"])
        handed = Handed(Node(numa, found["most"], found["owned"]), found["workers"], found["bind"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    whole = isinstance(handed.node.most, int) and isinstance(handed.workers, int)
    return handed if whole and handed.node.cores and all(handed.node.cores) else None


def list_bindings(context: Context) -> dict[str, str]:
    """Return the variables that a process does not get: those by which ranks would all be bound to the same core."""
    return read_bindings(context.environ) if must_not_bind(context) else {}


def read_bindings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that bind threads."""
    return {name: environ[name] for name in BINDINGS if environ.get(name, "").strip().lower() not in LOOSE}


def must_not_bind(context: Context) -> bool:
    """Return whether a process may not bind its threads: it would hand that on to ranks, or shares its cores."""
    if context.process.starter:  # the ranks of an mpirun are pinned by it, but not under a quota
        return context.process.starter != MPIRUN or not context.machine.owned
    alone = context.world.rank is None or not context.world.several
    return not alone and not (context.machine.owned and find_share(context).ranks == 1)


def bind_ranks(context: Context) -> list[Setting]:
    """Return the cores of this node, for ranks that torchrun starts by our program, so that each takes its own."""
    process, node = context.process, see_node(context.machine)
    binds = process.checks_size or share(node, context.world.local_size or 1, 0).cores != node.cores
    starts = os.path.basename(process.program) in SHELLS or (process.program in BINDABLE and binds)
    if not context.world.is_unstarted or not starts or not process.has_file(RANK_PROGRAM):
        return []
    found = [Setting(CORES, write_handed(context), "of which each rank takes its share")]
    if process.checks_size:
        found.append(Setting(COUNTS, "1", "MULTINODE_WORLD_SIZE, and nodes that come and go"))
    return found


def warn_bindings(context: Context) -> list[str]:
    """Return a note on variables that a process does not get."""
    lost = " ".join(f"{name}={value}" for name, value in list_bindings(context).items())
    return [f"{lost} is left out: it would bind all ranks of this node to the same core"] if lost else []


def restrict(node: Node, mask: frozenset[int]) -> Node:
    """Return a node with the cores of a mask alone, which somebody has given to a torchrun in a shell (taskset)."""
    numa = tuple(tuple(core & mask for core in cores if core & mask) for cores in node.numa)
    left = sum(map(len, numa))
    return node._replace(numa=numa, most=min(node.most, left)) if 0 < left < len(node.cores) else node


def prepare_rank(
    environ: Mapping[str, str], world: World, mask: frozenset[int]
) -> tuple[frozenset[int], dict[str, str]]:
    """Return the processors of a rank, none where no plan says so, and its environment: what the user has set wins.

    mask: that of its agent, which counts unless a variable has bound the agent.
    """
    handed = read_handed(environ.get(CORES, ""))
    if handed is None:
        return frozenset(), dict(environ)
    node, ranks = handed.node if read_bindings(environ) else restrict(handed.node, mask), world.local_size or 1
    mine = share(node, ranks, (world.rank or 0) % ranks)  # torchrun numbers the ranks of a node in a row
    several = world.several and environ.get("CCL_WORKER_OFFLOAD") != "0"
    workers = handed.workers if several and handed.workers < mine.most else 0
    busy = read_cpus(environ.get("CCL_WORKER_AFFINITY", "")) if workers else frozenset()
    variables = mine.set_threads(workers, busy, bind=handed.bind)
    marked = {name: value for name, value in read_list(environ, MARK) if environ.get(name) == value}
    yours = {name for name in variables if environ.get(name) and name not in marked}
    ours = {name: value for name, value in variables.items() if name not in yours}
    return frozenset().union(*mine.cores), {**environ, **ours, MARK: write_list({**marked, **ours})}


def start_rank(words: list[str], environ: Mapping[str, str], world: World) -> NoReturn:
    """Replace this process by Python with these words, on the cores of this rank."""
    cpus, environ = prepare_rank(environ, world, frozenset(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError):  # none of them is left, if the container's cpuset has changed since
        if cpus:
            os.sched_setaffinity(0, cpus)
    become("python3", ["python3", *words], environ)
