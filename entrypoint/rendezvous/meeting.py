"""A rendezvous of torchrun: what its options and PET_ variables say, and what it is told here."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from entrypoint.errors import Refusal
from entrypoint.machine.network import is_free, is_here, own_address, split_addresses
from entrypoint.numbers import whole
from entrypoint.settings import Setting
from entrypoint.world.model import TORCHRUN, World
from entrypoint.world.torchrun import C10D_PORT, INDEX, NPROC, check_options, is_standalone, parse_nodes

# Options of torchrun that say how its ranks meet (torch/distributed/run.py). Each has a variable, PET_ and its name,
# which counts where the option is not typed.
OPTIONS = (
    "--nnodes",
    "--nproc_per_node",
    "--node_rank",
    "--master_addr",
    "--master_port",
    "--rdzv_endpoint",
    "--rdzv_backend",
    "--rdzv_conf",
    "--standalone",
    "--max_restarts",
)
NODE, RESTARTS = "PET_NODE_RANK", "PET_MAX_RESTARTS"
# Without it, the agent of torch 2.13 keeps the first store that it made for its ranks. A node that joins a job later
# is never told where that is: all of them end 60 s after it came. Ranks that are started again may read in it where
# those that died could be reached (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, next_rendezvous).
NEW_STORE = Setting("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", "ranks that are started again need a new store")
# With it, agents work out the numbers of their ranks by themselves (pytorch/pytorch#136865; older ones ignore it).
# Else a worker that is started again before the old master has ended finds its number in the store of that one, and the
# new master waits 900 s for what this worker has written there (elastic/agent/server/api.py, _assign_worker_ranks).
ALIKE = Setting("TORCH_ELASTIC_WORKER_IDENTICAL", "1", "every pod has as many ranks, so agents need not ask each other")


def read_options(typed: Mapping[str, str], environ: Mapping[str, str], nproc: int | None) -> dict[str, str]:
    """Return the PET_ variables that describe the ranks of a typed torchrun; without any it starts one, on one node."""
    found = {name: value for name, value in environ.items() if value and name.startswith("PET_")}
    if nproc is not None:
        found[NPROC] = str(nproc)
    found.update({"PET_" + name[2:].upper(): typed[name] for name in OPTIONS if name in typed})
    nodes = parse_nodes(found.get("PET_NNODES", "1"))[1]
    if is_standalone(found):
        check_options(found, nodes)
        return {NPROC: found.get(NPROC, "1"), RESTARTS: found.get(RESTARTS, "0")}
    node = environ.get(INDEX, "").strip() if nodes > 1 else ""
    return {"PET_NNODES": "1", NPROC: "1", NODE: node or "0", **found}


def complete_options(described: Mapping[str, str], environ: Mapping[str, str], count: int | None) -> list[Setting]:
    """Return what a typed torchrun was not told: how many ranks it starts, and in which pod of an Indexed Job it is.

    described: its PET_ variables; count: None where the number is typed.
    """
    found = []
    if count is not None and str(count) != (environ.get(NPROC) or "1"):
        found.append(Setting(NPROC, str(count), "torchrun's auto is a process for every processor"))
    node = described.get(NODE, "")
    if node not in ("", "0") and node == environ.get(INDEX, "").strip() and not environ.get(NODE):
        found.append(Setting(NODE, node, "the number of this pod in its Indexed Job"))
    return found


def prepare_restarts(world: World, described: Mapping[str, str], environ: Mapping[str, str]) -> list[Setting]:
    """Return what ranks and agents need that are started again, as variables; described: those of a typed torchrun.

    Agents number their ranks themselves in Kubernetes only, where each has its number, and all pods have as many ranks:
    elsewhere people number the nodes, and agents that ask each other find out about mistakes.
    """
    starts = world.is_unstarted and world.several
    again = described.get(RESTARTS, "").strip() not in ("", "0") or bool(described.get("PET_RDZV_ENDPOINT"))
    pod = bool(environ.get("KUBERNETES_SERVICE_HOST")) and world.launcher == TORCHRUN and world.several_nodes
    alike = world.node_rank is not None and whole(environ.get(NPROC, "")) == world.local_size
    return [*([NEW_STORE] if starts and again else []), *([ALIKE] if pod and alike else [])]


def describe_meeting(world: World, environ: Mapping[str, str]) -> list[Setting]:
    """Return what torchrun has to know of this node in a rendezvous of several, as variables that nobody has set.

    Torchrun takes a node for the host of an elastic rendezvous only if the endpoint is among its own names, and gives
    the others its host name, which may be on loopback or unknown to them. Where the port is taken, another agent on
    this node is the host already.
    """
    if world.launcher != TORCHRUN or not world.several_nodes:
        return []
    found = []
    if world.job and not environ.get("PET_RDZV_ID"):  # it may become part of a path, and of the key of a store
        name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in world.job)
        found.append(Setting("PET_RDZV_ID", name, "two jobs at one endpoint do not become one"))
    if not environ.get("PET_RDZV_ENDPOINT") or world.master is None:
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


def check_backend(world: World, environ: Mapping[str, str]) -> None:
    """Raise Refusal for a backend that meets at an endpoint, where there is only a master.

    Torchrun reads a master for `static` alone (get_rdzv_endpoint in torch/distributed/run.py); without an endpoint each
    node waits on its own loopback. The master cannot become the endpoint: nodes that meet there have no PET_NODE_RANK.
    """
    backend = environ.get("PET_RDZV_BACKEND") or "static"
    if world.launcher != TORCHRUN or backend == "static" or environ.get("PET_RDZV_ENDPOINT"):
        return
    endpoint = f"export PET_RDZV_ENDPOINT={world.master}:{C10D_PORT} in place of the master and of PET_NODE_RANK"
    remedy = f"unset PET_RDZV_BACKEND, or {endpoint}; of a typed torchrun --rdzv_backend and --rdzv_endpoint"
    value = f"PET_RDZV_BACKEND={backend} and the master {world.master}"
    raise Refusal("this backend of a rendezvous meets at an endpoint, and does not read a master", value, remedy)


def check_endpoint(name: str) -> None:
    """Raise Refusal for a name that this node shares with others, each of which would be host and train by itself."""
    here, elsewhere = split_addresses(name)
    if here and elsewhere:
        one = "of a container or pod, or of a headless service for that one alone"
        remedy = f"the name of one node in PET_RDZV_ENDPOINT: {one}"
        value = f"{name} ({', '.join(sorted(here + elsewhere))})"
        raise Refusal("the endpoint is the name of several nodes", value, remedy)
