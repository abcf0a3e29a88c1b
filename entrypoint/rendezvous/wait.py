"""Wait until the name of the master resolves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from entrypoint.errors import LATER, Refusal
from entrypoint.machine.network import can_resolve
from entrypoint.numbers import seconds
from entrypoint.printing.streams import print_note
from entrypoint.world.model import TORCHRUN, TORCHRUN_WORKER, World

# As long as torchrun itself waits: for the store of an elastic rendezvous (c10d_rendezvous_backend.py, read_timeout),
# and for the master of any other (torch/distributed/launcher/api.py, rdzv_timeout). Ranks that MPI or Slurm has started
# are on nodes that are up; their names may be half a minute late.
SECONDS, MASTER_SECONDS = 60, 900
PAUSE = 0.5
# Where to name the master of torchrun if no variable has: a scheduler has listed its hosts, or an option was typed.
TYPED = "PET_MASTER_ADDR, with PET_NNODES and PET_NODE_RANK; of a typed torchrun in --master_addr or --rdzv_endpoint"


def wait_for_master(world: World, environ: Mapping[str, str]) -> bool:
    """Wait until the master's name resolves; return whether it was late. Raise Refusal where it does not come.

    A worker of torchrun need not wait, because its agent has.
    """
    if world.launcher == TORCHRUN_WORKER or world.master is None or not world.several_nodes:
        return False
    static = world.launcher == TORCHRUN and world.node_rank is not None  # also where its options are typed
    patience = MASTER_SECONDS if static else SECONDS
    asked = seconds(environ, "MULTINODE_TIMEOUT", MASTER_SECONDS)
    return wait_for_name(world.master, name_source(world, environ), patience if asked is None else asked, can_resolve)


def name_source(world: World, environ: Mapping[str, str]) -> str:
    """Return where to name another master: in the variable that named this one, or in one that goes before it."""
    if world.launcher != TORCHRUN:
        return "MASTER_ADDR"
    names = ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "MASTER_ADDR")
    return next((name for name in names if environ.get(name)), TYPED)


def wait_for_name(name: str, source: str, seconds: int, resolves: Callable[[str], bool]) -> bool:
    """Wait until a name, which is from a source, resolves; return whether it was late. Raise Refusal after seconds."""
    if resolves(name):
        return False
    deadline = time.monotonic() + seconds
    print_note(f"waiting until {name} resolves, {seconds} s at most")
    while time.monotonic() < deadline:
        time.sleep(PAUSE)
        if resolves(name):
            return True
    remedy = f"the name or address of the node of rank 0 in {source}"
    raise Refusal(f"the master's name did not resolve within {seconds} s", name, remedy, LATER)
