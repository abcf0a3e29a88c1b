"""A rank of torchrun: it narrows itself to the cores of its own NUMA node before Python runs its script.

Torchrun starts its ranks with the program in PYTHON_EXEC instead of Python (torch/distributed/run.py), and gives all of
them its own mask.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from entrypoint.processes.programs import become
from entrypoint.settings import MARK, read_list, write_list
from entrypoint.tuning.cores import can_bind, split
from entrypoint.tuning.scene import Scene
from entrypoint.tuning.threads import divide_cores

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.cpus import Machine
    from entrypoint.machine.image import Stack
    from entrypoint.world.model import World


def narrow(machine: Machine, world: World) -> Machine:
    """Return the cores of one rank, neighbours together; the whole machine where it cannot have any of its own.

    With `--virtual-local-rank` LOCAL_RANK is 0 in all of them, but torchrun numbers the ranks of a node in a row.
    """
    count = world.local_size or 1
    if not can_bind(machine, count):
        return machine
    first = frozenset(split(machine, count)[(world.rank or 0) % count])
    siblings = tuple(core for core in machine.siblings if core & first)
    cpus = frozenset(cpu for core in siblings for cpu in core)
    return machine._replace(
        cpus=cpus,
        physical=len(siblings),
        cores=len(siblings),
        nodes=tuple(node & cpus for node in machine.nodes if node & cpus),
        pinned=True,
        around=machine.cores,
        siblings=siblings,
    )


def list_variables(scene: Scene) -> dict[str, str]:
    """Return the variables of this rank, without those that the user has set, and the mark of all that we set."""
    ours = {name: value for name, value in read_list(scene.environ, MARK) if scene.environ.get(name) == value}
    cores = divide_cores(scene)
    # What a rank with cores of its own has otherwise than the program that started it.
    own = {"OMP_NUM_THREADS": cores.threads, "KMP_AFFINITY": cores.affinity}
    free = [name for name in own if name in ours or not scene.environ.get(name)]
    found = {name: value for name in free if (value := own[name]) is not None}
    return {**found, MARK: write_list({**ours, **found})}


def start_rank(words: list[str], environ: Mapping[str, str], world: World, machine: Machine, stack: Stack) -> NoReturn:
    """Replace this process by Python with these words, on the cores of this rank."""
    own = narrow(machine, world)
    if own is not machine:
        os.sched_setaffinity(0, own.cpus)
    variables = list_variables(Scene(world, own, stack, True, lambda: None, os.path.exists, environ))
    become("python3", ["python3", *words], {**environ, **variables})
