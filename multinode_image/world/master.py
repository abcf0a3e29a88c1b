"""The master: all nodes wait until its name resolves, and rank 0 sees whether it is there and its port is free."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping

from multinode_image import timeouts
from multinode_image.errors import LATER, Refusal
from multinode_image.machine.network import can_resolve, is_here, try_port
from multinode_image.printing.streams import print_note
from multinode_image.reading import LAST_PORT, PORT
from multinode_image.world.model import SLURM, TORCHRUN, TORCHRUN_WORKER, World
from multinode_image.world.torchrun import find_meeting

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
    seconds = timeouts.read_timeout(environ, timeouts.MASTER if static else timeouts.NAME)
    source = (find_meeting(environ) or TYPED) if world.launcher == TORCHRUN else "MASTER_ADDR"
    return wait_for_name(world.master, source, seconds, can_resolve)


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


def check_master(world: World) -> None:
    """Raise Refusal for a rank 0 that is not where the others expect it, or whose port is taken.

    The agents of an elastic rendezvous find out among themselves who has the port.
    """
    if world.launcher == TORCHRUN_WORKER or world.master is None:
        return
    if world.rank == 0 and not is_here(world.master):
        check_place(world, world.master, socket.gethostname())
    if not world.port or 0 not in (world.rank, world.node_rank):
        return
    error = try_port(world.port)
    if error is not None and not isinstance(error, PermissionError):  # torch says that it may not
        other = world.port + 1 if world.port < LAST_PORT else PORT
        name = "PET_MASTER_PORT" if world.launcher == TORCHRUN else "MASTER_PORT"
        remedy = f"export {name}={other} on every node"
        raise Refusal("the port where rank 0 has to listen is in use", world.port, remedy, LATER)


def check_place(world: World, master: str, here: str) -> None:
    """Raise Refusal for a rank 0 on a node, `here`, that is not the one where a scheduler's ranks look for it."""
    if "master" in world.guessed:
        remedy = f"export MASTER_ADDR={here} on every node, or let the launcher put rank 0 on {master}"
        raise Refusal("rank 0 is not on the first node of the list", f"{here}, not {master}", remedy)
    if world.launcher == SLURM and world.several_nodes:
        value = f"MASTER_ADDR={master}, and rank 0 is on {here}"
        raise Refusal("MASTER_ADDR is not the node of rank 0", value, "unset MASTER_ADDR before srun, which exports it")
