"""What is checked where rank 0 is, before it joins a world: its node, its port, and the network of its name."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from entrypoint.addresses import is_loopback
from entrypoint.errors import LATER, Refusal
from entrypoint.machine.network import find_address, find_both_ends, is_here, try_port
from entrypoint.numbers import LAST_PORT
from entrypoint.printing.streams import print_note
from entrypoint.world.model import MPI, PORT, SLURM, TORCHRUN, TORCHRUN_WORKER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from entrypoint.machine.network import Route
    from entrypoint.world.model import World


def check_master(world: World) -> None:
    """Raise Refusal for a rank 0 that is not where the others expect it, or whose port is taken.

    Print a note where that may be meant: agents of an elastic rendezvous find out among themselves who has the port.
    """
    if world.launcher == TORCHRUN_WORKER or world.master is None:
        return
    if world.rank == 0 and not is_here(world.master):
        check_place(world, world.master, socket.gethostname())
    if not world.port:
        return
    error = try_port(world.port)
    if error is None or isinstance(error, PermissionError):  # torch says that it may not
        return
    if world.rank == 0 or world.node_rank == 0:
        other = PORT if world.port == LAST_PORT else world.port + 1
        name = "PET_MASTER_PORT" if world.launcher == TORCHRUN else "MASTER_PORT"
        remedy = f"export {name}={other} on every node"
        raise Refusal("the port where rank 0 has to listen is in use", world.port, remedy, LATER)
    if world.launcher == TORCHRUN and is_here(world.master):
        note = "by another agent of this job, or by a stranger; then name another in PET_RDZV_ENDPOINT"
        print_note(f"port {world.port} of the rendezvous is in use on this node: {note}")


def check_place(world: World, master: str, here: str) -> None:
    """Raise Refusal or print a note for a rank 0 on a node, `here`, that does not have the address of the master."""
    if "master" in world.guessed:
        remedy = f"export MASTER_ADDR={here} on every node, or let the launcher put rank 0 on {master}"
        raise Refusal("rank 0 is not on the first node of the list", f"{here}, not {master}", remedy)
    if world.launcher == SLURM and world.several_nodes:
        value = f"MASTER_ADDR={master}, and rank 0 is on {here}"
        raise Refusal("MASTER_ADDR is not the node of rank 0", value, "unset MASTER_ADDR before srun, which exports it")
    if world.launcher == MPI and world.several_nodes:
        remedy = f"unset MASTER_ADDR before `launch`, or name {here} in the MASTER_ADDR that mpirun gets"
        print_note(f"MASTER_ADDR={master}, and rank 0 is on {here}; unless that leads here, {remedy}")


def warn_choice(world: World, interface: str | None, routes: Sequence[Route]) -> None:
    """Print a note where this node is the master by a name that does not choose among its several networks."""
    if not interface or world.master is None or not world.several_nodes or world.launcher == TORCHRUN_WORKER:
        return
    choices = [] if world.local_rank else list_choices(world.master, routes)
    if choices:
        elastic = world.launcher == TORCHRUN and world.node_rank is None  # its agents give each other addresses, too
        taken = f"{world.master} is this node, on several networks, so {interface} was taken of {', '.join(choices)}"
        remedy = f"name the master by its address there{'' if elastic else ', or export GLOO_SOCKET_IFNAME'}"
        print_note(f"{taken}; if the other nodes reach it by another, {remedy}")


def list_choices(master: str, routes: Sequence[Route]) -> list[str]:
    """Return the interfaces of this node, `eth0 (192.0.2.2)`, if it is the master by a name that chooses none of them.

    An address is the same everywhere; a bridge, as engines have one, leads to containers of this machine.
    """
    address = find_both_ends(master)[0]
    if (address == master.partition("%")[0] and not is_loopback(address)) or not is_here(master):
        return []
    names = sorted({route.interface for route in routes})
    found = [name for name in names if not os.path.isdir(f"/sys/class/net/{name}/bridge")]
    return [f"{name} ({find_address(list(routes), name) or '?'})" for name in found] if len(found) > 1 else []
