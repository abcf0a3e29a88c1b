"""The agent of torchrun on this node: what it has to be told, its command line, and where its program is."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from multinode_image.addresses import PORT
from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine.files import which
from multinode_image.machine.image import release
from multinode_image.machine.network import has_several_networks, is_free, is_here, own_address, split_addresses
from multinode_image.numbers import whole
from multinode_image.settings import Setting
from multinode_image.world.model import TORCHRUN, World
from multinode_image.world.torchrun import (
    ADDRESS,
    BACKEND,
    CONF,
    EACH,
    ENDPOINT,
    ID,
    INDEX,
    NODE,
    NPROC,
    RESTARTS,
)

# Without it, the agent of torch 2.13 keeps the first store that it made for its ranks. A node that joins a job later
# is never told where that is: all of them end 60 s after it came. Ranks that are started again may read in it where
# those that died could be reached (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, next_rendezvous).
NEW_STORE = Setting("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", "ranks that are started again need a new store")
# With it, agents work out the numbers of their ranks by themselves (pytorch/pytorch#136865; older ones ignore it).
# Else a worker that is started again before the old master has ended finds its number in the store of that one, and the
# new master waits 900 s for what this worker has written there (elastic/agent/server/api.py, _assign_worker_ranks).
ALIKE = Setting("TORCH_ELASTIC_WORKER_IDENTICAL", "1", "every pod has as many ranks, so agents need not ask each other")
# The only release of torch whose standalone rendezvous always takes the host's own name.
NAMES_ITSELF = (2, 4)
# Our images have a program of the name torchrun here, which calls the entrypoint: a pod's `command` replaces the
# entrypoint.
FRONT = "/usr/local/sbin"


def check_endpoint(name: str) -> None:
    """Raise Refusal for a name that this node shares with others, each of which would be host and train by itself."""
    here, elsewhere = split_addresses(name)
    if here and elsewhere:
        one = "of a container or pod, or of a headless service for that one alone"
        remedy = f"the name of one node in {ENDPOINT}: {one}"
        value = f"{name} ({', '.join(sorted(here + elsewhere))})"
        raise Refusal("the endpoint is the name of several nodes", value, remedy)


def set_meeting_variables(world: World, environ: Mapping[str, str]) -> list[Setting]:
    """Return what torchrun has to know of this node in a rendezvous of several, as variables that nobody has set.

    Torchrun takes a node for the host of an elastic rendezvous only if the endpoint is among its own names, and gives
    the others its host name, which may be on loopback or unknown to them. Where the port is taken, another agent on
    this node is the host already.
    """
    if world.launcher != TORCHRUN or not world.several_nodes:
        return []
    settings = []
    if world.job and not environ.get(ID):  # it may become part of a path, and of the key of a store
        name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in world.job)
        settings.append(Setting(ID, name, "two jobs at one endpoint do not become one"))
    if not environ.get(ENDPOINT) or world.master is None:
        return settings
    # Of several networks its own name leads to one; the others reach it by the name at which all meet.
    address = world.master if has_several_networks() and is_here(world.master) else own_address(world.master)
    if address and not environ.get(ADDRESS):
        settings.append(Setting(ADDRESS, address, "the host's own name need not resolve on other nodes"))
    conf = environ.get(CONF, "")
    if "is_host" in conf or environ.get(BACKEND, "c10d") != "c10d" or world.master == socket.gethostname():
        return settings
    check_endpoint(world.master)
    if is_here(world.master) and is_free(world.port or 0):
        settings.append(Setting(CONF, ",".join(filter(None, (conf, "is_host=true"))), "the endpoint is this node"))
    return settings


def set_agent_variables(
    world: World, described: Mapping[str, str], environ: Mapping[str, str], count: int | None
) -> list[Setting]:
    """Return what torchrun has to be told: where nodes meet, how many ranks it starts, and in which pod it is.

    described: the variables that describe the world, those of `describe_typed` where it is typed; count: how many
    ranks, None where an option says it.
    """
    settings = set_meeting_variables(world, {**environ, **described})
    if count is not None and str(count) != (environ.get(NPROC) or "1"):
        settings.append(Setting(NPROC, str(count), "torchrun's auto is a process for every processor"))
    node = described.get(NODE, "")
    if node not in ("", "0") and node == environ.get(INDEX, "").strip() and not environ.get(NODE):
        settings.append(Setting(NODE, node, "the number of this pod in its Indexed Job"))
    return settings


def prepare_restarts(world: World, described: Mapping[str, str], environ: Mapping[str, str]) -> list[Setting]:
    """Return what ranks and agents need that are started again, as variables; described: those of a typed torchrun.

    Agents number their ranks themselves in Kubernetes only, where each has its number, and all pods have as many ranks:
    elsewhere people number the nodes, and agents that ask each other find out about mistakes.
    """
    again = described.get(RESTARTS, "").strip() not in ("", "0") or bool(described.get(ENDPOINT))
    pod = bool(environ.get("KUBERNETES_SERVICE_HOST")) and world.launcher == TORCHRUN and world.several_nodes
    alike = world.node_rank is not None and whole(environ.get(NPROC, "")) == world.local_size
    return [
        *([NEW_STORE] if world.is_unstarted and world.several and again else []),
        *([ALIKE] if pod and alike else []),
    ]


def make_command(world: World, environ: Mapping[str, str], torch: str) -> list[str]:
    """Return torchrun with the options that it cannot read from variables, or reads wrongly; torch: its version."""
    each = [TORCHRUN, EACH, str(world.local_size)]
    if world.launcher != TORCHRUN:
        return [TORCHRUN, *meet_here(torch), *each[1:]]
    if environ.get(ENDPOINT):
        return each if environ.get(BACKEND) else [*each, "--rdzv_backend", "c10d"]
    nodes = ["--nnodes", str(world.nodes[1]), "--node_rank", str(world.node_rank or 0)]
    return [*each, *nodes, "--master_addr", str(world.master), "--master_port", str(world.port)]


def meet_here(torch: str) -> list[str]:
    """Return the options by which the ranks of a single node meet.

    Torch 2.4 ignores --local-addr in a standalone rendezvous, and hangs where the name of the host does not resolve, as
    without a network (pytorch/pytorch#135262); its static rendezvous takes the address that it is given.
    """
    if release(torch) != NAMES_ITSELF:
        return ["--standalone"]
    port = next((port for port in range(PORT, PORT + 100) if is_free(port)), PORT)
    return ["--rdzv_backend", "static", "--master_addr", "127.0.0.1", "--master_port", str(port)]


def find_torchrun(environ: Mapping[str, str]) -> str:
    """Return the path of torchrun itself, not that of our program of the same name."""
    # Its directory may be written in several ways; a program that found itself would start itself for ever.
    front = os.path.realpath(FRONT)
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in places if os.path.realpath(each) != front)
    program = which(TORCHRUN, {"PATH": path})
    if program is None:
        raise Refusal("there is no torchrun", path, "pip install torch", EXIT_OUTSIDE)
    return program
