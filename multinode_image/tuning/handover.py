"""What the plan of a node hands over to the ranks that torchrun starts there: each takes its share of the cores.

Torchrun starts its ranks with the program in PYTHON_EXEC instead of Python (torch/distributed/run.py), and all have its
mask. That would be one core if OpenMP bound the agent, which therefore gets no variable that binds threads.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from multinode_image.processes import become
from multinode_image.reading import parse_json, read_cpus, write_cpus
from multinode_image.settings import MARK, Setting, read_list, write_list
from multinode_image.tuning.context import Context, Role
from multinode_image.tuning.threads import (
    Node,
    count_workers,
    keep_workers,
    list_bindings,
    may_bind_threads,
    read_bindings,
    see_node,
    set_threads,
    share,
)
from multinode_image.world.model import World
from multinode_image.world.starters import SHELLS

# What takes the place of Python in the ranks of a torchrun that runs under the image's own Python.
RANK_PROGRAM = "/opt/multinode/rank"
# What stands before a program that is no Python of the image, as torchrun itself calls it.
NO_PYTHON = "--no-python"
# What is typed with a directory may have a Python of its own, which stays.
BINDABLE = ("torchrun", "python3", "python")
# For each rank: that it has to look how many they have become, and the cores of its node.
COUNTS, CORES = "MULTINODE_COUNTS", "MULTINODE_CORES"


class Handover(NamedTuple):
    """What the plan of a node hands on to its ranks.

    workers: those of oneCCL in each rank; bind: whether the threads of a rank may be bound.
    """

    node: Node
    workers: int
    bind: bool


def write_handover(context: Context) -> str:
    """Return the cores of this node as a text for its ranks."""
    node, left_out = see_node(context.machine), list_bindings(context)
    ranks = context._replace(  # in a shell nobody knows yet how many there will be
        world=context.world._replace(size=max(2, context.world.sizes[1])),
        process=context.process._replace(role=Role.PROGRAM),
        environ={name: value for name, value in context.environ.items() if name not in left_out},
    )
    numa = [" ".join(map(write_cpus, cores)) for cores in node.numa]
    rest = {"workers": count_workers(ranks), "bind": may_bind_threads(ranks)}
    return json.dumps({**node._asdict(), "numa": numa, **rest})


def read_handover(text: str) -> Handover | None:
    """Return what is in a text of `write_handover`; None for any other text."""
    try:
        fields = parse_json(text)
        numa = tuple(tuple(map(read_cpus, cores.split())) for cores in fields["numa"])
        handed = Handover(Node(numa, fields["most"], fields["exclusive"]), fields["workers"], fields["bind"])
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    whole = isinstance(handed.node.most, int) and isinstance(handed.workers, int)
    return handed if whole and handed.node.cores and all(handed.node.cores) else None


def hand_over_cores(context: Context) -> list[Setting]:
    """Return the cores of this node, for ranks that torchrun starts by our program, so that each takes its own."""
    process, node = context.process, see_node(context.machine)
    must_look = process.checks_size or share(node, context.world.local_size or 1, 0).cores != node.cores
    starts_python = os.path.basename(process.program) in SHELLS or (process.program in BINDABLE and must_look)
    if not context.world.is_unstarted or not starts_python or not process.has_file(RANK_PROGRAM):
        return []
    settings = [Setting(CORES, write_handover(context), "of which each rank takes its share")]
    if process.checks_size:
        settings.append(Setting(COUNTS, "1", "MULTINODE_WORLD_SIZE, and nodes that come and go"))
    return settings


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
    handed = read_handover(environ.get(CORES, ""))
    if handed is None:
        return frozenset(), dict(environ)
    node, ranks = handed.node if read_bindings(environ) else restrict(handed.node, mask), world.local_size or 1
    mine = share(node, ranks, (world.rank or 0) % ranks)  # torchrun numbers the ranks of a node in a row
    workers = keep_workers(handed.workers if world.several else 0, mine, environ)
    variables = set_threads(mine, workers, environ.get("CCL_WORKER_AFFINITY", ""), bind=handed.bind)
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
