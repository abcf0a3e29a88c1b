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
from entrypoint.tuning.starters import MPIRUN, SHELLS
from entrypoint.tuning.threads import (
    BOUND,
    RANKS,
    Context,
    can_bind,
    count_lost,
    count_workers,
    divide,
    has_own_cores,
    may_bind_threads,
)
from entrypoint.world.model import World

# What takes the place of Python in the ranks of a torchrun that runs under the image's own Python.
RANK_PROGRAM = "/opt/multinode/rank"
# What is typed with a directory may have a Python of its own, which stays.
BINDABLE = ("torchrun", "python3", "python")
# For each rank: that it has to look how many they have become, and the cores of its node.
COUNTS, CORES = "MULTINODE_COUNTS", "MULTINODE_CORES"
# Variables that bind threads to processors, and values of them that do not (OpenMP 5.2, 21.2; Intel's and GNU's).
BINDINGS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET")
LOOSE = ("", "false", "none", "disabled")


class Node(NamedTuple):
    """The cores of a node, as its plan hands them on to ranks.

    numa: the processors of each core, by NUMA node; most: how many may be kept busy; owned: no quota makes others share
    them; workers: those of oneCCL in each rank; bind: whether threads of a rank with several NUMA nodes may be bound.
    """

    numa: tuple[tuple[frozenset[int], ...], ...]
    most: int
    owned: bool
    workers: int
    bind: bool

    @property
    def cores(self) -> tuple[frozenset[int], ...]:
        """List the cores, neighbours together."""
        return tuple(core for node in self.numa for core in node)


def describe_node(context: Context) -> str:
    """Return the cores of this node as a text for its ranks."""
    machine, left_out = context.machine, list_bindings(context)
    ranks = context._replace(  # in a shell nobody knows yet how many there will be
        world=context.world._replace(size=max(2, context.world.sizes[1])),
        process=context.process._replace(runs=RANKS),
        environ={name: value for name, value in context.environ.items() if name not in left_out},
    )
    node = Node(
        tuple(tuple(core for core in machine.siblings if min(core) in node) for node in machine.nodes),
        machine.cores,
        machine.owned,
        count_workers(ranks),
        may_bind_threads(ranks),
    )
    return json.dumps({**node._asdict(), "numa": [" ".join(map(write_cpus, cores)) for cores in node.numa]})


def read_node(text: str) -> Node | None:
    """Return the node of a text of `describe_node`; None for any other text."""
    try:
        found = json.loads(text)
        node = Node(**{**found, "numa": tuple(tuple(map(read_cpus, cores.split())) for cores in found["numa"])})
        whole = isinstance(node.most, int) and isinstance(node.workers, int)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return node if whole and node.cores and all(node.cores) else None


def list_bindings(context: Context) -> dict[str, str]:
    """Return the variables that a process does not get: those by which ranks would all be bound to the same core."""
    return read_bindings(context.environ) if must_not_bind(context) else {}


def read_bindings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that bind threads."""
    return {name: environ[name] for name in BINDINGS if environ.get(name, "").strip().lower() not in LOOSE}


def must_not_bind(context: Context) -> bool:
    """Return whether a process may not bind its threads: it would hand that on to ranks, or shares its cores."""
    if starts_ranks(context):  # those of an mpirun are pinned by it, but not under a quota
        return context.process.starter != MPIRUN or not context.machine.owned
    alone = context.world.rank is None or not context.world.several
    return not alone and not (context.machine.owned and has_own_cores(context))


def starts_ranks(context: Context) -> bool:
    """Return whether a process is a program that starts ranks; a task is torchrun where there are several."""
    return bool(context.process.starter) and (context.process.runs != RANKS or context.world.needs_torchrun)


def bind_ranks(context: Context) -> list[Setting]:
    """Return the program by which a torchrun starts its ranks, so that each takes its own cores."""
    process = context.process
    binds = process.checks_size or can_bind(context.machine, context.world.local_size or 1)
    starts = os.path.basename(process.program) in SHELLS or (process.program in BINDABLE and binds)
    if not context.world.is_unstarted or not starts or not process.has_file(RANK_PROGRAM):
        return []
    found = [
        Setting("PYTHON_EXEC", RANK_PROGRAM, "each rank takes the cores of its own NUMA node"),
        Setting(CORES, describe_node(context), "of which each rank takes its share"),
    ]
    if process.checks_size:
        found.append(Setting(COUNTS, "1", "MULTINODE_WORLD_SIZE, and nodes that come and go"))
    return found


def warn_bindings(context: Context) -> list[str]:
    """Return a note on variables that a process does not get."""
    lost = " ".join(f"{name}={value}" for name, value in list_bindings(context).items())
    return [f"{lost} is left out: it would bind all ranks of this node to the same core"] if lost else []


def take_share(node: Node, world: World, environ: Mapping[str, str]) -> tuple[frozenset[int], dict[str, str]]:
    """Return the processors and variables of one rank; torchrun numbers the ranks of a node in a row."""
    count, total = world.local_size or 1, len(node.cores)
    own, place = node.owned and count <= total, (world.rank or 0) % count
    cores = divide(node.cores, count)[place] if own else node.cores
    per_rank = len(cores) if own else max(1, node.most // count)
    several = world.several and environ.get("CCL_WORKER_OFFLOAD") != "0"
    workers = node.workers if several and node.workers < per_rank else 0
    busy = read_cpus(environ.get("CCL_WORKER_AFFINITY", "")) if workers else frozenset()
    variables = {"OMP_NUM_THREADS": str(max(1, per_rank - count_lost(cores, workers, busy, 1 if own else count)))}
    if own and node.bind and not workers and not any(set(cores) <= set(each) for each in node.numa):
        variables["KMP_AFFINITY"] = BOUND
    return frozenset(cpu for core in cores for cpu in core), variables


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
    node = read_node(environ.get(CORES, ""))
    if node is None:
        return frozenset(), dict(environ)
    node = node if read_bindings(environ) else restrict(node, mask)
    cpus, variables = take_share(node, world, environ)
    marked = {name: value for name, value in read_list(environ, MARK) if environ.get(name) == value}
    yours = {name for name in variables if environ.get(name) and name not in marked}
    ours = {name: value for name, value in variables.items() if name not in yours}
    return cpus, {**environ, **ours, MARK: write_list({**marked, **ours})}


def start_rank(words: list[str], environ: Mapping[str, str], world: World) -> NoReturn:
    """Replace this process by Python with these words, on the cores of this rank."""
    cpus, environ = prepare_rank(environ, world, frozenset(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError):  # none of them is left, if the container's cpuset has changed since
        if cpus:
            os.sched_setaffinity(0, cpus)
    become("python3", ["python3", *words], environ)
