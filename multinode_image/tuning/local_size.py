"""How many ranks a node gets: by default one for each NUMA node that its cores fill."""

from __future__ import annotations

from collections.abc import Mapping

from multinode_image.errors import Refusal
from multinode_image.machine.cpus import Machine
from multinode_image.numbers import whole
from multinode_image.world.model import World


def read_threads(environ: Mapping[str, str]) -> int | None:
    """Return the first number of OMP_NUM_THREADS; raise Refusal for a text that OpenMP does not read.

    It would take all processors that it sees (OpenMP 5.2, 21.1.2), of which a quota may allow a few.
    """
    text = environ.get("OMP_NUM_THREADS", "").strip()
    if text and not all(map(whole, text.split(","))):
        remedy = "export OMP_NUM_THREADS=4 without quotes in the value, or unset it"
        raise Refusal("OMP_NUM_THREADS is no number that OpenMP reads", repr(text), remedy)
    return whole(text.partition(",")[0])


def set_local_size(world: World, machine: Machine, threads: int | None = None, *, starts: bool = True) -> World:
    """Return the world with a number of processes on this node, by default one for each NUMA node that our cores fill.

    threads: the user's OMP_NUM_THREADS, for which there have to be cores; starts: whether processes are started here.
    """
    ours = world.is_unstarted
    if ours and not starts:  # one process has the whole machine, whatever a variable of the pod says
        return world._replace(local_size=1)
    if world.local_size is not None or not ours:
        return world._replace(local_size=world.local_size or 1)
    most = machine.cores // threads if threads else machine.cores
    count = max(1, min(machine.filled_nodes, most))
    return world._replace(local_size=count, guessed=(*world.guessed, "local_size"))
