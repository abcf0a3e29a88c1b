"""What is checked where rank 0 is, before it joins a world: its node and its port."""

from __future__ import annotations

import socket

from entrypoint.addresses import PORT
from entrypoint.errors import LATER, Refusal
from entrypoint.machine.network import is_here, try_port
from entrypoint.numbers import LAST_PORT
from entrypoint.world.model import SLURM, TORCHRUN, TORCHRUN_WORKER, World


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
        other = PORT if world.port == LAST_PORT else world.port + 1
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
