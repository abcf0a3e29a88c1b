"""The share of a rank in the cores of its node: one rule for plans, for ranks of torchrun and for those of `launch`."""

from __future__ import annotations

from typing import NamedTuple

from entrypoint.machine.cpus import Machine

# KMP_AFFINITY that keeps threads beside their memory where there are several NUMA nodes. Within one it gains nothing,
# and beside another busy process on one of the cores all wait for the thread that is bound there: 4.4 s instead of 2.9.
BOUND = "granularity=fine,compact,1,0"


class Node(NamedTuple):
    """The cores that some ranks have together.

    numa: the processors of each core, by NUMA node; most: how many cores may be kept busy; owned: no quota makes other
    containers share them.
    """

    numa: tuple[tuple[frozenset[int], ...], ...]
    most: int
    owned: bool

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

    def set_threads(self, workers: int, busy: frozenset[int], *, bind: bool) -> dict[str, str]:
        """Return the variables of a rank's threads.

        workers: those of oneCCL in each rank, which take cores from its threads; busy: the processors that the workers
        of all ranks have, if somebody has chosen them; bind: whether threads may be bound to cores.
        """
        lost = -(-sum(1 for core in self.cores if core & busy) // self.ranks) if busy else workers
        alone = self.ranks == 1 and self.most == len(self.cores)
        bound = {"KMP_AFFINITY": BOUND} if bind and alone and self.spread and not workers else {}
        return {"OMP_NUM_THREADS": str(max(1, self.most - lost)), **bound}


def see_node(machine: Machine) -> Node:
    """Return the cores of a machine as a node for ranks."""
    numa = tuple(tuple(core for core in machine.siblings if min(core) in node) for node in machine.nodes)
    return Node(numa, machine.cores, machine.owned)


def share(node: Node, ranks: int, place: int | None = None) -> Share:
    """Return what one of several ranks gets: cores of its own, neighbours together, or a part of what all use together.

    They share all cores under a quota, where there are fewer cores than ranks, and where the place of the rank among
    those of the node is not known.
    """
    cores, most, total = node.cores, max(1, node.most // ranks), len(node.cores)
    if place is not None and node.owned and ranks <= total:
        cores, ranks = cores[total * place // ranks : total * (place + 1) // ranks], 1
        most = len(cores)
    spread = sum(not frozenset(cores).isdisjoint(each) for each in node.numa) > 1
    return Share(cores, most, ranks, spread)
