"""Before a process joins a world: the master's name has to resolve, and the port of rank 0 has to be free."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Callable

from entrypoint.container.network import can_resolve, is_free, is_here
from entrypoint.errors import WORLD, Refusal
from entrypoint.launchers.world import TORCHRUN, TORCHRUN_WORKER
from entrypoint.numbers import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.launchers.world import World

# As long as torchrun itself waits for its rendezvous; Kubernetes may publish a pod's name half a minute late.
SECONDS = 60
PAUSE = 0.5


def check_master(world: World, environ: Mapping[str, str]) -> None:
    """Raise Refusal for a rendezvous that cannot succeed, after waiting for a name that is late.

    A worker of torchrun has a master already. The agents of an elastic rendezvous find out among themselves who
    binds the port, so only a rank 0 that is known beforehand is asked for it.
    """
    if world.launcher == TORCHRUN_WORKER or world.master is None:
        return
    if world.several_nodes:
        wait_for_name(world.master, number(environ, "MULTINODE_TIMEOUT") or SECONDS, can_resolve)
    if not world.port or is_free(world.port):
        return
    name = "PET_MASTER_PORT" if world.launcher == TORCHRUN else "MASTER_PORT"
    if world.rank == 0 or world.node_rank == 0:
        remedy = f"export {name}={world.port + 1} on every node"
        raise Refusal("the port where rank 0 has to listen is in use", world.port, remedy, WORLD)
    if world.launcher == TORCHRUN and is_here(world.master):
        note = "by another agent of this job, or by a stranger; then name another in PET_RDZV_ENDPOINT"
        print(f"multinode: port {world.port} of the rendezvous is in use on this node: {note}", file=sys.stderr)


def wait_for_name(name: str, seconds: int, resolves: Callable[[str], bool]) -> None:
    """Wait until a name resolves; raise Refusal after some seconds."""
    deadline, said = time.monotonic() + seconds, False
    while not resolves(name):
        if time.monotonic() >= deadline:
            remedy = "the name or address of the node of rank 0 in MASTER_ADDR or PET_RDZV_ENDPOINT"
            raise Refusal(f"the master's name did not resolve within {seconds} s", name, remedy, WORLD)
        if not said:
            print(f"multinode: waiting until {name} resolves", file=sys.stderr, flush=True)
            said = True
        time.sleep(PAUSE)
