"""torchrun: its workers, and nodes on which it has to be started; each option has a variable, PET_ and its name."""

from __future__ import annotations

from collections.abc import Mapping

from entrypoint.addresses import ANYWHERE, PORT, can_be_host, is_loopback, read_host, read_port, unbracket
from entrypoint.errors import Refusal
from entrypoint.numbers import MOST_PROCESSES, explain_reference, first_number, number, read_range, whole
from entrypoint.world.model import ALONE, NO_LAUNCHER, TORCHRUN, Launcher, World

# What torchrun takes for a number of processes besides a number. It counts the processors of the host, of which a
# container may have few, so all of these become a number here.
AUTO = ("", "auto", "cpu", "gpu", "xpu", "privateuse1")
NPROC, INDEX, STANDALONE = "PET_NPROC_PER_NODE", "JOB_COMPLETION_INDEX", "PET_STANDALONE"
# Where torchrun meets if its endpoint has no port (torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py).
C10D_PORT = "29400"
BY_HAND = "RANK, WORLD_SIZE and MASTER_ADDR are set"
AT_ENDPOINT, AT_MASTER_ADDR = "PET_RDZV_ENDPOINT is set", "a master and PET_NNODES are set"
NODE_RANKS = "export PET_NODE_RANK=0 on the master, 1, 2, ... on the others"


def give(name: str, value: object) -> str:
    """Return how torchrun is given a value: by its variable, or by its option where it is typed."""
    return f"export {name}={value}; of a typed torchrun --{name[4:].lower()} {value}"


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


def read_count(environ: Mapping[str, str]) -> int | None:
    """Return how many processes a node should run, None where the machine decides; raise Refusal for any other text."""
    text = environ.get(NPROC, "").strip()
    if text.lower() in AUTO:
        return None
    value = whole(text)
    if not value or value > MOST_PROCESSES:
        fact = f"{NPROC} is not a number of processes up to {MOST_PROCESSES}"
        raise Refusal(fact, repr(text), give(NPROC, "auto"))
    return value


def read_rendezvous(environ: Mapping[str, str], why: str) -> World:
    """Return the world that PET_ variables describe; raise Refusal for nodes that would not meet."""
    nodes = read_nodes(environ)
    elastic = environ.get("PET_RDZV_ENDPOINT", "").strip()
    node_rank = None if elastic else read_node_rank(environ, nodes[1])
    host, port = split_endpoint(elastic)
    if not elastic:
        nodes = (nodes[1], nodes[1])  # a master waits for all of them (elastic/rendezvous/static_tcp_rendezvous.py)
        name = "PET_MASTER_ADDR" if environ.get("PET_MASTER_ADDR") else "MASTER_ADDR"
        host = read_host(environ.get(name, ""), name)
        port = environ.get("PET_MASTER_PORT") or environ.get("MASTER_PORT", "")
    if not host or not can_be_host(unbracket(host)):
        name, form = ("PET_RDZV_ENDPOINT", "HOST:PORT") if elastic else ("PET_MASTER_ADDR", "HOST")
        remedy = f"export {name}={form} without quotes and blanks"
        raise Refusal("the rendezvous names no host", repr(environ.get(name, "")), remedy)
    remedy = give("PET_RDZV_ENDPOINT", f"{host}:{PORT}") if elastic else give("PET_MASTER_PORT", PORT)
    found = read_port(port or (C10D_PORT if elastic else ""), remedy) or PORT
    local = read_count(environ)
    check_options(environ, nodes[1])
    return World(TORCHRUN, why, nodes, node_rank, local, master=unbracket(host), port=found)


def read_torchrun(typed: Mapping[str, str], local: int | None) -> World:
    """Return the world of a typed torchrun from its PET_ variables; local: how many processes were asked for.

    A master on loopback gets a note, because all its agents may be on this machine. Raise Refusal for several nodes
    without a place to meet: torchrun would take each node for it, so that some wait without end, some train alone.
    """
    local = read_count(typed) if local is None else local
    nodes = parse_nodes(typed.get("PET_NNODES", "1"))[1]
    if typed.get("PET_RDZV_ENDPOINT") or typed.get("PET_MASTER_ADDR"):
        why = AT_ENDPOINT if typed.get("PET_RDZV_ENDPOINT") else AT_MASTER_ADDR
        world = read_rendezvous({**typed, NPROC: ""}, why)._replace(local_size=local)
        found = explain_loopback(typed, world)
        return world._replace(notes=(found.note,) if found else ())
    check_options(typed, nodes)
    if nodes > 1:
        remedy = (
            "--master_addr NODE0 --node_rank R (from 0) on every node, or --rdzv_backend c10d --rdzv_endpoint "
            f"NODE0:{C10D_PORT}; --master_addr 127.0.0.1 where all agents are on this machine"
        )
        fact = "nothing says where the nodes of this torchrun meet"
        raise Refusal(fact, f"--nnodes {typed['PET_NNODES']}", remedy)
    return World(ALONE, NO_LAUNCHER, local_size=local)


def explain_loopback(environ: Mapping[str, str], world: World) -> Refusal | None:
    """Return why nodes do not meet at an address where each finds only itself, and may train alone; None if they do.

    MASTER_ADDR may be on loopback: somebody may start several processes on one machine by hand, and an older PyTorchJob
    sets localhost in the pod of the master.
    """
    name = next((name for name in ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR") if environ.get(name)), "")
    here = is_loopback(world.master or "") or world.master in ANYWHERE
    if not here or not name or not world.several_nodes or world.node_rank == 0:
        return None
    fact = "the nodes meet on loopback, where only those on this machine find each other"
    remedy = f"{name}=NODE0{f':{C10D_PORT}' if name == 'PET_RDZV_ENDPOINT' else ''}, the name or address of one node"
    return Refusal(fact, world.master, f"{remedy}; of a typed torchrun --master_addr or --rdzv_endpoint")


def is_standalone(environ: Mapping[str, str]) -> bool:
    """Return whether torchrun is told to meet no other node; raise Refusal for what it would not read as a number."""
    return bool(number(environ, STANDALONE))


def check_options(environ: Mapping[str, str], nodes: int) -> None:
    """Raise Refusal for what makes each node wait alone: port 0, and --standalone (torch/distributed/run.py)."""
    read_port(environ.get("PET_MASTER_PORT", ""), give("PET_MASTER_PORT", PORT))
    if nodes > 1 and is_standalone(environ):
        remedy = "leave out --standalone and PET_STANDALONE, or --nnodes 1 (PET_NNODES=1) to train alone"
        raise Refusal("a standalone torchrun meets no other node", f"{nodes} nodes", remedy)


def read_node_rank(environ: Mapping[str, str], nodes: int) -> int | None:
    """Return which node this is; None where it is the only one and nothing says so."""
    rank = first_number(environ, ("PET_NODE_RANK", "RANK", *([INDEX] if nodes > 1 else [])))
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


def read_nodes(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the fewest and the most nodes; without PET_NNODES it is WORLD_SIZE, which operators count in nodes.

    Torchrun takes one node where nothing is said, so that every node of a rendezvous would train alone.
    """
    if text := environ.get("PET_NNODES", "").strip():
        return parse_nodes(text)
    endpoint = environ.get("PET_RDZV_ENDPOINT", "")
    count = None if endpoint else number(environ, "WORLD_SIZE")
    if not count:
        value = endpoint or environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR", "")
        raise Refusal("nothing says how many nodes meet there", value, "export PET_NNODES=2, or 1:4, or 1")
    return count, count


def parse_nodes(text: str) -> tuple[int, int]:
    """Return the fewest and the most nodes of `2` or `1:4`; raise Refusal for anything else."""
    low, high = read_range(text) or (None, None)
    if low is None or high is None:  # torchrun knows no range without an end
        remedy = explain_reference(text) or "export PET_NNODES=2, or 1:4; of a typed torchrun --nnodes 2"
        raise Refusal("PET_NNODES is neither a number nor a range", repr(text), remedy)
    return low, high


def read_pod(environ: Mapping[str, str], launcher: Launcher) -> World:
    """Return the world of a node on which torchrun has to be started, to meet the others.

    A WORLD_SIZE that somebody has set is the number of processes, so each node has one.
    """
    world = read_rendezvous(environ, launcher.why)
    if found := explain_loopback(environ, world):
        raise found
    return world._replace(local_size=1) if launcher.size and not environ.get(NPROC) else world


def read_alone(environ: Mapping[str, str], launcher: Launcher) -> World:
    """Return the world of one process, which may start ranks itself."""
    return World(launcher.kind, launcher.why, local_size=read_count(environ))
