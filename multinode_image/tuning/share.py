"""The share of a rank in the cores of its node: one rule for plans, for ranks of torchrun and for those of `launch`."""

from __future__ import annotations

from typing import NamedTuple

from multinode_image.machine.cpus import Machine
from multinode_image.numbers import whole
from multinode_image.tuning.context import Context
from multinode_image.world.model import MPI, SLURM


class Node(NamedTuple):
    """The cores that some ranks have together.

    numa: the processors of each core, by NUMA node; most: how many cores may be kept busy; exclusive: whether no quota
    makes other containers share them.
    """

    numa: tuple[tuple[frozenset[int], ...], ...]
    most: int
    exclusive: bool

    @property
    def cores(self) -> tuple[frozenset[int], ...]:
        """List the cores, neighbours together."""
        return tuple(core for node in self.numa for core in node)


class Share(NamedTuple):
    """Cores that `ranks` use together, and the most of them that each may keep busy; spread: on several NUMA nodes."""

    cores: tuple[frozenset[int], ...]
    most: int
    ranks: int
    spread: bool


def see_node(machine: Machine) -> Node:
    """Return the cores of a machine as a node for ranks."""
    numa = tuple(tuple(core for core in machine.siblings if min(core) in node) for node in machine.nodes)
    return Node(numa, machine.cores, machine.exclusive)


def share(node: Node, ranks: int, place: int | None = None) -> Share:
    """Return what one of several ranks gets: cores of its own, neighbours together, or a part of what all use together.

    They share all cores under a quota, where there are fewer cores than ranks, and where the place of the rank among
    those of the node is not known.
    """
    cores, most, total = node.cores, max(1, node.most // ranks), len(node.cores)
    if place is not None and node.exclusive and ranks <= total:
        cores, ranks = cores[total * place // ranks : total * (place + 1) // ranks], 1
        most = len(cores)
    spread = sum(not frozenset(cores).isdisjoint(each) for each in node.numa) > 1
    return Share(cores, most, ranks, spread)


def find_share(context: Context) -> Share:
    """Return the share of each rank of this node, or of this rank alone where it has the cores that it sees to itself.

    A mask with more cores than an even share of the container's is one mask for several ranks, unless Slurm says how
    many processors each task has.
    """
    machine, ranks, of_task = context.machine, context.world.local_size or 1, count_task_cpus(context)
    node, pinned = see_node(machine), is_pinned(context)
    even = pinned and machine.cores <= -(-machine.container_cores // ranks)
    # Where Slurm gives each task more than its share of what we see, we see the processors of one task.
    if even or (of_task or 0) * ranks > len(machine.cpus):
        ranks = 1
    elif pinned and ranks > 1:
        node = node._replace(most=machine.container_cores)
    mine = share(node, ranks)
    return mine._replace(most=min(mine.most, of_task or mine.most))


def is_pinned(context: Context) -> bool:
    """Return whether a launcher pinned this rank; a mask around what starts ranks is one for all of them."""
    return context.machine.pinned and context.world.rank is not None


def count_task_cpus(context: Context) -> int | None:
    """Return the processors that Slurm gives to each task of this step; None where it says nothing of our ranks."""
    environ, world = context.environ, context.world
    if world.launcher not in (MPI, SLURM) or whole(environ.get("SLURM_STEP_NUM_TASKS", "")) != world.size:
        return None
    return whole(environ.get("SLURM_CPUS_PER_TASK", ""))
