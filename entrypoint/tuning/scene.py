"""All that the variables of a rank are worked out from, and how many processes a node gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.launchers.world import ALONE, MPIJOB_LAUNCHER, MPIJOB_WORKER, TORCHRUN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.container.image import Stack
    from entrypoint.container.processors import Machine
    from entrypoint.launchers.world import World


class Scene(NamedTuple):
    """All that the values are worked out from.

    training: this process is a rank or starts them, so that variables which are right for this world only do no harm;
    interface: the one that leads to the master; exists: whether the image has a file; environ: what is set already.
    """

    world: World
    machine: Machine
    stack: Stack
    training: bool
    interface: Callable[[], str | None]
    exists: Callable[[str], bool]
    environ: Mapping[str, str]


def spread(world: World, machine: Machine) -> World:
    """Return the world with a number of processes per node, by default one for each NUMA node that our cores fill."""
    if world.local_size is not None:
        return world
    count = machine.filled_nodes if world.launcher in (ALONE, TORCHRUN) else 1
    return world._replace(local_size=count)


def crowd(world: World, machine: Machine) -> list[str]:
    """Return a note if the processes that are started here will share cores."""
    count = world.local_size or 1
    if world.launcher not in (ALONE, TORCHRUN) or count <= machine.cores:
        return []
    return [f"{count} processes on {machine.cores} core(s): they share them, and are slower than one on each core"]


def is_training(world: World, *, job: bool) -> bool:
    """Return whether this process is a rank, or starts the ranks of this world."""
    return job or world.launcher not in (ALONE, MPIJOB_LAUNCHER, MPIJOB_WORKER)
