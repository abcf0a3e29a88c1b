"""A rendezvous of several nodes: what torchrun is told of this one, and for whom it is going to wait."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from entrypoint.errors import Refusal
from entrypoint.machine.network import is_free, is_here, own_address, split_addresses
from entrypoint.settings import Setting
from entrypoint.world.model import TORCHRUN
from entrypoint.world.torchrun import C10D_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.world.model import World

# How long a rendezvous waits for its nodes, by backend: a setting of PET_RDZV_CONF, and what holds without it
# (torch/distributed/launcher/api.py; elastic/rendezvous/dynamic_rendezvous.py). Of other backends nothing is known.
LIMITS = {"static": ("timeout", "900"), "c10d": ("join_timeout", "600")}


def describe_meeting(world: World, environ: Mapping[str, str]) -> list[Setting]:
    """Return what torchrun has to know of this node in a rendezvous of several, as variables that nobody has set.

    Torchrun takes a node for the host of an elastic rendezvous only if it finds the endpoint among its own names, and
    gives the others its host name, which may be on loopback (/etc/hosts of Debian) or unknown to them. Where the port
    is taken, another agent on this node is the host already.
    """
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
    remedy = f"unset PET_RDZV_BACKEND, or {endpoint}; of a typed torchrun --rdzv_backend and --rdzv_endpoint"
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
    settings = dict(part.strip().split("=", 1) for part in environ.get("PET_RDZV_CONF", "").split(",") if "=" in part)
    seconds = settings.get(name, usual)
    (low, high), place = world.nodes, f"{world.master}:{world.port}"
    nodes = f"{high} nodes" if low == high else f"{low} to {high} nodes"
    if backend == "static" and world.node_rank:
        return f"waiting for the master at {place}, and then for {nodes}, {seconds} s at most for each"
    return f"waiting for {nodes} at {place}, {seconds} s at most"
