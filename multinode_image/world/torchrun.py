"""torchrun: what its variables say of the nodes of a job, what it is told of this one, and its command.

Each option has a variable, PET_ and its name, which counts where the option is not typed (torch/distributed/run.py).
A typed torchrun says by these names what it has read (hooks/ends/agents.py). Options are written with underscores,
which every release takes; dashes are known since 2.0 (pytorch/pytorch#94505).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine.files import which
from multinode_image.machine.image import release
from multinode_image.machine.network import find_local_address, has_several_networks, is_free, is_here, split_addresses
from multinode_image.reading import (
    ANYWHERE,
    MOST_PROCESSES,
    PORT,
    can_be_host,
    first_number,
    is_loopback,
    number,
    read_host,
    read_port,
    read_range,
    unbracket,
    whole,
)
from multinode_image.settings import Setting
from multinode_image.world.model import TORCHRUN, NodeLauncher, World

# What the variables of torchrun begin with.
PREFIX = "PET_"
NNODES = "PET_NNODES"
NPROC, NODE, RESTARTS, STANDALONE = "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MAX_RESTARTS", "PET_STANDALONE"
ENDPOINT, MASTER, MASTER_PORT = "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "PET_MASTER_PORT"
ID, BACKEND, CONF, ADDRESS = "PET_RDZV_ID", "PET_RDZV_BACKEND", "PET_RDZV_CONF", "PET_LOCAL_ADDR"
# The number of a pod in an Indexed Job.
INDEX = "JOB_COMPLETION_INDEX"
# What torchrun takes for a number of processes besides a number. It counts the processors of the host, of which a
# container may have few, so all of these become a number here.
AUTO = ("", "auto", "cpu", "gpu", "xpu", "privateuse1")
# Where torchrun meets if its endpoint has no port (torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py).
C10D_PORT = "29400"
NODE_RANKS = "export PET_NODE_RANK=0 on the master, 1, 2, ... on the others"


def spell_setting(name: str, value: object) -> str:
    """Return how torchrun is given a value: by its variable, or by its option where it is typed."""
    return f"export {name}={value}; of a typed torchrun --{name[4:].lower()} {value}"


def find_meeting(environ: Mapping[str, str]) -> str:
    """Return the variable that says where nodes meet: an endpoint, where nodes come and go, goes before a master."""
    return next((name for name in (ENDPOINT, MASTER, "MASTER_ADDR") if environ.get(name, "").strip()), "")


def read_count(environ: Mapping[str, str]) -> int | None:
    """Return how many processes a node should run, None where the machine decides; raise Refusal for any other text."""
    text = environ.get(NPROC, "").strip()
    if text.lower() in AUTO:
        return None
    value = whole(text)
    if not value or value > MOST_PROCESSES:
        fact = f"{NPROC} is not a number of processes up to {MOST_PROCESSES}"
        raise Refusal(fact, repr(text), spell_setting(NPROC, "auto"))
    return value


def parse_nodes(text: str) -> tuple[int, int]:
    """Return the fewest and the most nodes of `2` or `1:4`; raise Refusal for anything else."""
    low, high = read_range(text) or (None, None)
    if low is None or high is None:  # torchrun knows no range without an end
        remedy = "export PET_NNODES=2, or 1:4; of a typed torchrun --nnodes 2"
        raise Refusal("PET_NNODES is neither a number nor a range", repr(text), remedy)
    return low, high


def count_nodes(environ: Mapping[str, str], meeting: str) -> tuple[int, int]:
    """Return the fewest and the most nodes; without PET_NNODES it is WORLD_SIZE, which operators count in nodes.

    Torchrun's default is one node, with which every node of a rendezvous would train alone.
    """
    if text := environ.get("PET_NNODES", "").strip():
        low, high = parse_nodes(text)
        # A master waits for all of them (elastic/rendezvous/static_tcp_rendezvous.py).
        return (low if meeting == ENDPOINT else high), high
    count = None if meeting == ENDPOINT else number(environ, "WORLD_SIZE")
    if not count:
        raise Refusal("nothing says how many nodes meet there", environ[meeting], "export PET_NNODES=2, or 1:4, or 1")
    return count, count


def read_node_rank(environ: Mapping[str, str], nodes: int) -> int | None:
    """Return which node this is; None where it is the only one and nothing says so."""
    rank = first_number(environ, (NODE, "RANK", *([INDEX] if nodes > 1 else [])))
    if rank is None and nodes > 1:
        raise Refusal("no variable tells which node this is", f"PET_NNODES={nodes}", NODE_RANKS)
    if rank is not None and rank >= nodes:
        remedy = f"{NODE_RANKS}, all below PET_NNODES; of a typed torchrun --node_rank and --nnodes"
        raise Refusal("the node's rank is not below the number of nodes", f"{rank} of {nodes}", remedy)
    return rank


def split_endpoint(text: str) -> tuple[str, str]:
    """Split `host:29400`, `[fd00::1]:29400` and `fd00::1`; a part that is not there is empty."""
    host, colon, port = text.rpartition(":")
    if not colon or host.endswith(":") or (":" in host and not host.endswith("]")):
        return text, ""
    return host, port


def read_rendezvous(environ: Mapping[str, str], launcher: NodeLauncher) -> World:
    """Return the world of a node that is to meet others by torchrun; raise Refusal for nodes that would not.

    A WORLD_SIZE that somebody has set is the number of processes, so each node has one.
    """
    meeting = find_meeting(environ)
    nodes, text = count_nodes(environ, meeting), environ[meeting].strip()
    if meeting == ENDPOINT:
        host, port = split_endpoint(text)
        rank, remedy = None, spell_setting(ENDPOINT, f"{host}:{PORT}")
    else:
        host, port = read_host(text, meeting), environ.get(MASTER_PORT) or environ.get("MASTER_PORT", "")
        rank, remedy = read_node_rank(environ, nodes[1]), spell_setting(MASTER_PORT, PORT)
    host = unbracket(host)
    if not host or not can_be_host(host):
        form = f"export {meeting}=HOST{':PORT' if meeting == ENDPOINT else ''} without quotes and blanks"
        raise Refusal("the rendezvous names no host", repr(environ[meeting]), form)
    listens = read_port(port or (C10D_PORT if meeting == ENDPOINT else ""), remedy) or PORT
    check_standalone(environ, nodes[1])
    local = 1 if launcher.nodes and not environ.get(NPROC) else read_count(environ)
    return World(TORCHRUN, launcher.why, nodes, rank, local, master=host, port=listens)


def check_standalone(environ: Mapping[str, str], nodes: int) -> bool:
    """Return whether torchrun is told to meet no other node; raise Refusal where there are others, who would wait."""
    standalone = bool(number(environ, STANDALONE))
    if nodes > 1 and standalone:
        remedy = "leave out --standalone and PET_STANDALONE, or --nnodes 1 (PET_NNODES=1) to train alone"
        raise Refusal("a standalone torchrun meets no other node", f"{nodes} nodes", remedy)
    return standalone


def explain_loopback(environ: Mapping[str, str], world: World) -> Refusal | None:
    """Return why nodes do not meet at an address where each finds only itself, and may train alone; None if they do.

    MASTER_ADDR may be on loopback: somebody may start several processes on one machine by hand, and an older PyTorchJob
    sets localhost in the pod of the master.
    """
    name, here = find_meeting(environ), is_loopback(world.master or "") or world.master in ANYWHERE
    meets = world.launcher == TORCHRUN and world.several_nodes and world.node_rank != 0
    if not here or not meets or name not in (ENDPOINT, MASTER):
        return None
    fact = "the nodes meet on loopback, where only those on this machine find each other"
    remedy = f"{name}=NODE0{f':{C10D_PORT}' if name == ENDPOINT else ''}, the name or address of one node"
    return Refusal(fact, world.master, f"{remedy}; of a typed torchrun --master_addr or --rdzv_endpoint")


def check_meeting(described: Mapping[str, str]) -> None:
    """Raise Refusal for nodes of a typed torchrun without a place to meet, and for a port that is none.

    Torchrun would take each node for that place, so that some wait without end, and some train alone.
    """
    nodes = parse_nodes(described.get("PET_NNODES", "1"))[1]
    read_port(described.get(MASTER_PORT, ""), spell_setting(MASTER_PORT, PORT))
    if check_standalone(described, nodes) or nodes == 1 or find_meeting(described):
        return
    remedy = (
        "--master_addr NODE0 --node_rank R (from 0) on every node, or --rdzv_backend c10d --rdzv_endpoint "
        f"NODE0:{C10D_PORT}; --master_addr 127.0.0.1 where all agents are on this machine"
    )
    fact = "nothing says where the nodes of this torchrun meet"
    raise Refusal(fact, f"--nnodes {described['PET_NNODES']}", remedy)


def count_by_hand(environ: Mapping[str, str], size: int) -> int | None:
    """Return how many ranks this node has where LOCAL_WORLD_SIZE is not set, as in Azure ML; None if nothing says so.

    A master on loopback is for one node. Elsewhere the first rank of a node is its number times the ranks of each.
    """
    if is_loopback(unbracket(environ.get("MASTER_ADDR", ""))):
        return size
    node, rank, local_rank = (number(environ, name) for name in ("NODE_RANK", "RANK", "LOCAL_RANK"))
    if not node or rank is None or local_rank is None or (rank - local_rank) % node:
        return None
    return max(0, rank - local_rank) // node or None


def check_rendezvous_backend(world: World, environ: Mapping[str, str]) -> None:
    """Raise Refusal for a backend that meets at an endpoint, where there is only a master.

    Torchrun reads a master for `static` alone (get_rdzv_endpoint in torch/distributed/run.py); without an endpoint each
    node waits on its own loopback. The master cannot become the endpoint: nodes that meet there have no PET_NODE_RANK.
    """
    backend = environ.get(BACKEND) or "static"
    if world.launcher != TORCHRUN or backend == "static" or environ.get(ENDPOINT):
        return
    endpoint = f"export {ENDPOINT}={world.master}:{C10D_PORT} in place of the master and of {NODE}"
    remedy = f"unset {BACKEND}, or {endpoint}; of a typed torchrun --rdzv_backend and --rdzv_endpoint"
    value = f"{BACKEND}={backend} and the master {world.master}"
    raise Refusal("this backend of a rendezvous meets at an endpoint, and does not read a master", value, remedy)


# The agent of torchrun on this node: what it has to be told, its command line, and where its program is.

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
    address = world.master if has_several_networks() and is_here(world.master) else find_local_address(world.master)
    if address and not environ.get(ADDRESS):
        settings.append(Setting(ADDRESS, address, "the host's own name need not resolve on other nodes"))
    conf = environ.get(CONF, "")
    if "is_host" in conf or environ.get(BACKEND, "c10d") != "c10d" or world.master == socket.gethostname():
        return settings
    check_endpoint(world.master)
    if is_here(world.master) and is_free(world.port or 0):
        settings.append(Setting(CONF, ",".join(filter(None, (conf, "is_host=true"))), "the endpoint is this node"))
    return settings


def set_unread_variables(environ: Mapping[str, str], nproc: int | None) -> list[Setting]:
    """Return what a typed torchrun reads where no option says it; nproc: how many processes were asked for.

    Of the words for a number it knows those alone whose devices it sees; here all of them become a number.
    """
    if nproc is not None:
        return [Setting(NPROC, str(nproc), "--nproc")]
    counts_devices = environ.get(NPROC, "").strip().lower() in AUTO[2:]
    return [Setting(NPROC, "auto", "this machine has processors alone")] if counts_devices else []


def prepare_restarts(world: World, environ: Mapping[str, str]) -> list[Setting]:
    """Return what ranks and agents need that are started again, as variables.

    Agents number their ranks themselves in Kubernetes only, where each has its number, and all pods have as many ranks:
    elsewhere people number the nodes, and agents that ask each other find out about mistakes.
    """
    again = environ.get(RESTARTS, "").strip() not in ("", "0") or bool(environ.get(ENDPOINT))
    pod = bool(environ.get("KUBERNETES_SERVICE_HOST")) and world.launcher == TORCHRUN and world.several_nodes
    alike = world.node_rank is not None and whole(environ.get(NPROC, "")) == world.local_size
    return [
        *([NEW_STORE] if world.is_unstarted and world.several and again else []),
        *([ALIKE] if pod and alike else []),
    ]


def make_command(world: World, environ: Mapping[str, str], torch: str) -> list[str]:
    """Return torchrun with the options that it cannot read from variables, or reads wrongly; torch: its version."""
    command = [TORCHRUN, "--nproc_per_node", str(world.local_size)]
    if world.launcher != TORCHRUN:
        return [TORCHRUN, *meet_here(torch), *command[1:]]
    if environ.get(ENDPOINT):
        return command if environ.get(BACKEND) else [*command, "--rdzv_backend", "c10d"]
    nodes = ["--nnodes", str(world.nodes[1]), "--node_rank", str(world.node_rank or 0)]
    return [*command, *nodes, "--master_addr", str(world.master), "--master_port", str(world.port)]


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
    path = os.pathsep.join(place for place in places if os.path.realpath(place) != front)
    program = which(TORCHRUN, {"PATH": path})
    if program is None:
        raise Refusal("there is no torchrun", path, "pip install torch", EXIT_OUTSIDE)
    return program
