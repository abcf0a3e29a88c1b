"""Before a process joins a world: wait for the master's name, and check its node and the port of rank 0."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import TYPE_CHECKING, Callable

from entrypoint.container.files import read_text
from entrypoint.container.network import (
    can_resolve,
    find_address,
    find_both_ends,
    is_free,
    is_here,
    loops_back,
    own_address,
    read_routes,
    split_addresses,
)  # fmt: skip
from entrypoint.errors import LATER, Refusal
from entrypoint.launchers.torchrun import C10D_PORT
from entrypoint.launchers.world import HERE, SLURM, TORCHRUN, TORCHRUN_WORKER
from entrypoint.meeting.options import read_conf
from entrypoint.numbers import number
from entrypoint.settings import Setting
from entrypoint.streams import print_note

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from entrypoint.launchers.world import World

# As long as torchrun itself waits: for the store of an elastic rendezvous (c10d_rendezvous_backend.py, read_timeout),
# and for the master of any other (torch/distributed/launcher/api.py, rdzv_timeout). Ranks that MPI or Slurm has started
# are on nodes that are up; their names may be half a minute late.
SECONDS, MASTER_SECONDS = 60, 900
PAUSE = 0.5
# How long a rendezvous waits for its nodes, by backend: a setting of PET_RDZV_CONF, and what holds without it
# (torch/distributed/launcher/api.py; elastic/rendezvous/dynamic_rendezvous.py). Of other backends nothing is known.
LIMITS = {"static": ("timeout", "900"), "c10d": ("join_timeout", "600")}
# Where to name the master of torchrun if no variable has: a scheduler has listed its hosts, or an option was typed.
TYPED = "PET_MASTER_ADDR, with PET_NNODES and PET_NODE_RANK; of a typed torchrun in --master-addr or --rdzv-endpoint"


def wait_for_master(world: World, environ: Mapping[str, str]) -> bool:
    """Wait until the master's name resolves; return whether it was late. Raise Refusal where it does not come.

    A worker of torchrun need not wait, because its agent has.
    """
    if world.launcher == TORCHRUN_WORKER or world.master is None or not world.several_nodes:
        return False
    patience = MASTER_SECONDS if world.launcher == TORCHRUN and not environ.get("PET_RDZV_ENDPOINT") else SECONDS
    asked = number(environ, "MULTINODE_TIMEOUT")
    return wait_for_name(world.master, name_source(world, environ), patience if asked is None else asked, can_resolve)


def name_source(world: World, environ: Mapping[str, str]) -> str:
    """Return where to name another master: in the variable that named this one, or that goes before a list of hosts."""
    if world.launcher != TORCHRUN:
        return "MASTER_ADDR"
    names = ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "MASTER_ADDR")
    return next((name for name in names if environ.get(name)), TYPED)


def wait_for_name(name: str, source: str, seconds: int, resolves: Callable[[str], bool]) -> bool:
    """Wait until a name resolves; return whether it was late. Raise Refusal after some seconds.

    source: where the name is from.
    """
    if resolves(name):
        return False
    before = signal.signal(signal.SIGTERM, stop)
    deadline = time.monotonic() + seconds
    print_note(f"waiting until {name} resolves, {seconds} s at most")
    try:
        while time.monotonic() < deadline:
            time.sleep(PAUSE)
            if resolves(name):
                return True
    finally:
        signal.signal(signal.SIGTERM, before)
    remedy = f"the name or address of the node of rank 0 in {source}"
    raise Refusal(f"the master's name did not resolve within {seconds} s", name, remedy, LATER)


def stop(number: int, _: FrameType | None) -> None:
    """End this process as a signal would: one that is the first of its container gets none without a handler."""
    raise SystemExit(128 + number)


def check_master(world: World) -> None:
    """Raise Refusal for a rank 0 that is not where the others expect it, or whose port is taken.

    The agents of an elastic rendezvous find out among themselves who binds the port, so only a rank 0 that is known
    beforehand is asked for it.
    """
    if world.launcher == TORCHRUN_WORKER or world.master is None:
        return
    if world.rank == 0 and "master" in world.guessed and not is_here(world.master):
        here = socket.gethostname()
        remedy = f"export MASTER_ADDR={here} on every node, or let the launcher put rank 0 on {world.master}"
        raise Refusal("rank 0 is not on the first node of the list", f"{here}, not {world.master}", remedy)
    if world.rank == 0 and world.launcher == SLURM and world.several_nodes and not is_here(world.master):
        value = f"MASTER_ADDR={world.master}, and rank 0 is on {socket.gethostname()}"
        raise Refusal("MASTER_ADDR is not the node of rank 0", value, "unset MASTER_ADDR before srun, which exports it")
    if not world.port or is_free(world.port):
        return
    name = "PET_MASTER_PORT" if world.launcher == TORCHRUN else "MASTER_PORT"
    if world.rank == 0 or world.node_rank == 0:
        remedy = f"export {name}={world.port + 1} on every node"
        raise Refusal("the port where rank 0 has to listen is in use", world.port, remedy, LATER)
    if world.launcher == TORCHRUN and is_here(world.master):
        note = "by another agent of this job, or by a stranger; then name another in PET_RDZV_ENDPOINT"
        print_note(f"port {world.port} of the rendezvous is in use on this node: {note}")


def warn_choice(world: World, interface: str | None) -> None:
    """Print a note where this node is the master by a name that does not choose among its several networks."""
    if not interface or world.master is None or not world.several_nodes or world.launcher == TORCHRUN_WORKER:
        return
    choices = [] if world.local_rank else list_choices(world.master)
    if choices:
        elastic = world.launcher == TORCHRUN and world.node_rank is None  # its agents give each other addresses, too
        taken = f"{world.master} is this node, on several networks, so {interface} was taken of {', '.join(choices)}"
        remedy = f"name the master by its address there{'' if elastic else ', or export GLOO_SOCKET_IFNAME'}"
        print_note(f"{taken}; if the other nodes reach it by another, {remedy}")


def list_choices(master: str) -> list[str]:
    """Return the interfaces of this node, `eth0 (192.0.2.2)`, if it is the master and the name chooses none of them.

    The name may be on loopback, or mean another network on the other nodes; an address is the same everywhere. A
    bridge, as an engine has one, leads to containers of this machine.
    """
    address = find_both_ends(master)[0]
    if (address == master.partition("%")[0] and not loops_back(address)) or not is_here(master):
        return []
    routes = read_routes(read_text("/proc/net/route"), read_text("/proc/net/ipv6_route"))
    names = sorted({route.interface for route in routes})
    found = [name for name in names if not os.path.isdir(f"/sys/class/net/{name}/bridge")]
    return [f"{name} ({find_address(routes, name) or '?'})" for name in found] if len(found) > 1 else []


def find_here(world: World) -> World:
    """Return the world with an address in the place of a master that is this node itself."""
    return world._replace(master=own_address(None) or socket.gethostname()) if world.master == HERE else world


def describe_meeting(world: World, environ: Mapping[str, str]) -> list[Setting]:
    """Return what torchrun has to know of this node in a rendezvous of several, as variables that nobody has set.

    Torchrun takes a node for the host of an elastic rendezvous only if it finds the endpoint among its own names, and
    gives the others its host name, which may be on loopback (/etc/hosts of Debian) or unknown to them. Where the port
    is taken, another agent on this node is the host already.
    """
    check_way(world, environ)
    why = "two jobs at one endpoint do not become one"
    found = [] if environ.get("PET_RDZV_ID") or not world.job else [Setting("PET_RDZV_ID", name_run(world.job), why)]
    if world.launcher != TORCHRUN or not environ.get("PET_RDZV_ENDPOINT") or world.master is None:
        return found
    address = own_address(world.master)
    if address and not environ.get("PET_LOCAL_ADDR"):
        found.append(Setting("PET_LOCAL_ADDR", address, "the host's own name need not resolve on other nodes"))
    known = "is_host" in environ.get("PET_RDZV_CONF", "") or environ.get("PET_RDZV_BACKEND", "c10d") != "c10d"
    if known or world.master == socket.gethostname():
        return found
    check_endpoint(world.master)
    if not is_here(world.master) or not is_free(world.port or 0):
        return found
    settings = ",".join(part for part in (environ.get("PET_RDZV_CONF", ""), "is_host=true") if part)
    return [*found, Setting("PET_RDZV_CONF", settings, "the endpoint is this node")]


def check_way(world: World, environ: Mapping[str, str]) -> None:
    """Raise Refusal for a backend that meets at an endpoint, where there is only a master.

    Torchrun reads a master only for `static` (get_rdzv_endpoint in torch/distributed/run.py); without an endpoint each
    node waits for the others on its own loopback. The master does not become the endpoint here, because nodes that
    meet at an endpoint are not numbered by PET_NODE_RANK.
    """
    backend = environ.get("PET_RDZV_BACKEND") or "static"
    if world.launcher != TORCHRUN or backend == "static" or environ.get("PET_RDZV_ENDPOINT"):
        return
    endpoint = f"export PET_RDZV_ENDPOINT={world.master}:{C10D_PORT} in place of the master and of PET_NODE_RANK"
    remedy = f"unset PET_RDZV_BACKEND, or {endpoint}; of a typed torchrun --rdzv-backend and --rdzv-endpoint"
    value = f"PET_RDZV_BACKEND={backend} and the master {world.master}"
    raise Refusal("this backend of a rendezvous meets at an endpoint, and does not read a master", value, remedy)


def check_endpoint(name: str) -> None:
    """Raise Refusal for a name that this node shares with others, each of which would be host and train by itself.

    A node that has none of the addresses cannot tell several nodes from one on several networks.
    """
    here, elsewhere = split_addresses(name)
    if here and elsewhere:
        one = "of a container or pod, or of a headless service for that one alone"
        remedy = f"the name of one node in PET_RDZV_ENDPOINT: {one}"
        value = f"{name} ({', '.join(sorted(here + elsewhere))})"
        raise Refusal("the endpoint is the name of several nodes", value, remedy)


def name_run(job: str) -> str:
    """Return a job's name in letters, digits and dashes, so that it can be part of a path and of a store's key."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in job)


def describe_wait(world: World, environ: Mapping[str, str]) -> str:
    """Return for whom a torchrun of these PET_ variables is going to wait, and how long; empty where for nobody."""
    backend = environ.get("PET_RDZV_BACKEND") or "static"
    if world.launcher != TORCHRUN or not world.several_nodes or backend not in LIMITS:
        return ""
    name, usual = LIMITS[backend]
    seconds = read_conf(environ).get(name, usual)
    (low, high), place = world.nodes, f"{world.master}:{world.port}"
    nodes = f"{high} nodes" if low == high else f"{low} to {high} nodes"
    if backend == "static" and world.node_rank:
        return f"waiting for the master at {place}, and then for {nodes}, {seconds} s at most for each"
    return f"waiting for {nodes} at {place}, {seconds} s at most"
