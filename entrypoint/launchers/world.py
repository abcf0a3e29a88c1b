"""The size of the world and our place in it, from the launcher's variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.launchers.table import ALONE, MPI, SLURM, TORCHRUN, TORCHRUN_WORKER, Launcher, Ranks, find_sign
from entrypoint.numbers import number, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

PORT = 29500
# What torchrun takes for a number of processes besides a number; all of them are resolved here, because torchrun
# counts the processors of the host, of which a container may have few.
WORDS = ("", "auto", "cpu", "gpu", "xpu", "privateuse1")
LOOPBACK = ("localhost", "::1")


class World(NamedTuple):
    """How many processes train together, and which of them this one is.

    A node's rank and a process's rank are None where torchrun hands them out later; so is the number of processes on
    a node (local_size) until the machine has been looked at.
    """

    launcher: str
    why: str
    nodes: tuple[int, int] = (1, 1)
    node_rank: int | None = None
    local_size: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    size: int | None = None
    master: str | None = None
    port: int | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """Give the smallest and the largest number of processes."""
        if self.size is not None:
            return self.size, self.size
        each = self.local_size or 1
        return self.nodes[0] * each, self.nodes[1] * each

    @property
    def asked(self) -> str:
        """Write the size as it is asked for: `2`, or `1:4` where nodes may come and go."""
        low, high = self.sizes
        return str(low) if low == high else f"{low}:{high}"

    @property
    def several_nodes(self) -> bool:
        """Tell whether anything leaves this node."""
        return self.nodes[1] > 1


def is_loopback(host: str) -> bool:
    """Tell whether a name can only mean the machine it is used on."""
    return host in LOOPBACK or host.startswith("127.")


def read_world(environ: Mapping[str, str], launcher: Launcher, nproc: int | None) -> World:
    """Read the world of a launcher; nproc is what the user asked for with --nproc."""
    if launcher.ranks is not None:
        return read_rank(environ, launcher, launcher.ranks, nproc)
    if launcher.kind == TORCHRUN:
        return read_rendezvous(environ, launcher, nproc)
    return World(launcher.kind, launcher.why, local_size=read_nproc(environ, nproc))


def check_alone(environ: Mapping[str, str], world: World) -> None:
    """Refuse to train alone, or in a world too small, where a variable says that there should be others."""
    check_insisted(environ, world)
    if world.launcher != ALONE:
        return
    sign = find_sign(environ)
    if sign is not None:
        fact = "this process is alone, but was meant to be one of many"
        raise Refusal(fact, f"{sign.name}={environ[sign.name]}", f"{sign.remedy}; or unset {sign.name} to train alone")


def check_insisted(environ: Mapping[str, str], world: World) -> None:
    """Refuse a rank of a world smaller than MULTINODE_WORLD_SIZE, of whose range the smallest number counts."""
    least = read_least(environ)
    if world.size is not None and least is not None and world.size < least:
        remedy = f"start {least} processes, or unset MULTINODE_WORLD_SIZE"
        raise Refusal("the world is smaller than MULTINODE_WORLD_SIZE", f"{world.size} of {least}", remedy)


def read_least(environ: Mapping[str, str]) -> int | None:
    """Read the smallest number of MULTINODE_WORLD_SIZE, `2` or `1:4`; None if it is not set."""
    text = environ.get("MULTINODE_WORLD_SIZE", "").strip()
    low, _, high = text.partition(":")
    if text and (whole(low) is None or whole(high or low) is None):
        remedy = "export MULTINODE_WORLD_SIZE=2, or 1:4, or unset it"
        raise Refusal("MULTINODE_WORLD_SIZE is neither a number nor a range", repr(text), remedy)
    return whole(low)


def read_nproc(environ: Mapping[str, str], nproc: int | None) -> int | None:
    """Read how many processes a node should run; None where the machine decides."""
    text = environ.get("PET_NPROC_PER_NODE", "").strip()
    if nproc is not None or text.lower() in WORDS:
        return nproc
    value = whole(text)
    if not value:
        raise Refusal("PET_NPROC_PER_NODE is not a number of processes", repr(text), "export PET_NPROC_PER_NODE=auto")
    return value


def read_rendezvous(environ: Mapping[str, str], launcher: Launcher, nproc: int | None) -> World:
    """Read what PyTorchJob, Trainer v2 or the user set for torchrun; PET_ names are torchrun's own."""
    nodes = read_nodes(environ)
    elastic = environ.get("PET_RDZV_ENDPOINT", "").strip()
    node_rank = None if elastic else number(environ, "PET_NODE_RANK")
    if not elastic and node_rank is None:
        node_rank = number(environ, "RANK")
    if not elastic and node_rank is None and nodes[1] > 1:
        remedy = "export PET_NODE_RANK=0 on the master, 1, 2, ... on the others"
        raise Refusal("no variable tells which node this is", f"PET_NNODES={nodes[1]}", remedy)
    if node_rank is not None and node_rank >= nodes[1]:
        remedy = "export PET_NODE_RANK=0 on the master, 1, 2, ... on the others, all below PET_NNODES"
        raise Refusal("the node's rank is not below the number of nodes", f"{node_rank} of {nodes[1]}", remedy)
    host, port = split_endpoint(elastic)
    if not elastic:
        host = (environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR", "")).strip()
        port = (environ.get("PET_MASTER_PORT") or environ.get("MASTER_PORT", "")).strip()
    if not host:
        raise Refusal("the rendezvous names no host", repr(elastic), "export PET_RDZV_ENDPOINT=HOST:PORT")
    number_of_port = read_port(port, f"PET_RDZV_ENDPOINT={host}:" if elastic else "PET_MASTER_PORT=")
    each = read_nproc(environ, nproc)
    return World(launcher.kind, launcher.why, nodes, node_rank, each, master=host.strip("[]"), port=number_of_port)


def read_port(text: str, name: str) -> int:
    """Read where the master listens; Kubernetes sets MASTER_PORT=tcp://... for a service of the name master."""
    port = whole(text) if text else PORT
    if port is None or port > 65535:
        raise Refusal("the master's port is not a number below 65536", repr(text), f"export {name}{PORT}")
    return port or PORT


def split_endpoint(text: str) -> tuple[str, str]:
    """Split `host:29400`, `[fd00::1]:29400` and `fd00::1`; a part that is not there is empty."""
    host, colon, port = text.rpartition(":")
    if not colon or host.endswith(":") or (":" in host and not host.endswith("]")):
        return text, ""
    return host, port


def read_nodes(environ: Mapping[str, str]) -> tuple[int, int]:
    """Read the number of nodes, `2` or `1:4`; without PET_NNODES it is WORLD_SIZE, which operators count in nodes.

    Torchrun takes one node where nothing is said, so that every node of a rendezvous would train alone.
    """
    text = environ.get("PET_NNODES", "").strip()
    if not text:
        endpoint = environ.get("PET_RDZV_ENDPOINT", "")
        count = None if endpoint else number(environ, "WORLD_SIZE")
        if not count:
            value = endpoint or environ.get("PET_MASTER_ADDR") or environ.get("MASTER_ADDR", "")
            raise Refusal("nothing says how many nodes meet there", value, "export PET_NNODES=2, or 1:4, or 1")
        return count, count
    first, _, last = text.partition(":")
    low, high = whole(first), whole(last or first)
    if not low or not high or low > high:
        raise Refusal("PET_NNODES is neither a number nor a range", repr(text), "export PET_NNODES=2, or 1:4")
    return low, high


def read_rank(environ: Mapping[str, str], launcher: Launcher, names: Ranks, nproc: int | None) -> World:
    """Read the place of a process whose launcher has already given it one."""
    if nproc is not None:
        remedy = "give the number to the launcher instead: mpirun -n N -ppn N, torchrun --nproc-per-node N"
        raise Refusal("--nproc has no meaning in a process that a launcher started", launcher.why, remedy)
    rank, size = number(environ, names.rank), number(environ, names.size)
    if rank is None or not size or rank >= size:
        value = f"{names.rank}={environ.get(names.rank)} {names.size}={environ.get(names.size)}"
        remedy = f"start it by its launcher, which sets both, or unset what that has left ({launcher.why})"
        raise Refusal("the rank is not below the size of the world", value, remedy)
    local_rank, local_size = first(environ, names.local_rank), first(environ, names.local_size)
    if local_size is None and launcher.kind in (MPI, SLURM):
        local_size = guess_local_size(environ, size)
    local_size = min(local_size or size, size)
    nodes = -(-size // max(local_size, 1))
    master, port = read_master(environ, launcher, nodes)
    return World(
        launcher.kind, launcher.why, (nodes, nodes), None, local_size, rank, local_rank or 0, size, master, port
    )


def first(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """Read the first of several variables that is set."""
    return next((value for value in (number(environ, name) for name in names) if value is not None), None)


def guess_local_size(environ: Mapping[str, str], size: int) -> int:
    """Divide the ranks of a Slurm step by its nodes; a launcher that says nothing of nodes has put one rank on each."""
    nodes = first(environ, ("SLURM_STEP_NUM_NODES", "SLURM_NNODES"))
    return -(-size // nodes) if nodes else 1


def read_master(environ: Mapping[str, str], launcher: Launcher, nodes: int) -> tuple[str, int]:
    """Find where rank 0 listens; what is not known is never guessed for ranks on several nodes."""
    host = environ.get("MASTER_ADDR", "").strip()
    port = read_port(environ.get("MASTER_PORT", "").strip(), "MASTER_PORT=")
    if not host and nodes == 1:
        return "127.0.0.1", port
    if not host and launcher.kind == SLURM:
        host = first_host(environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", ""))
    remedy = "export MASTER_ADDR=<host of rank 0>, for example mpirun -genv MASTER_ADDR node0"
    if not host:
        raise Refusal("the ranks are on several nodes and MASTER_ADDR is not set", f"{nodes} nodes", remedy)
    if nodes > 1 and is_loopback(host) and launcher.kind != TORCHRUN_WORKER:
        raise Refusal("the ranks are on several nodes and MASTER_ADDR is this node only", host, remedy)
    return host, port


def first_host(nodelist: str) -> str:
    """Take the first host out of Slurm's list: `node[003-007,9],login1` begins with node003."""
    head, bracket, rest = nodelist.partition("[")
    if not bracket or "," in head:
        return head.split(",")[0].strip()
    number_text = rest.split("]")[0].split(",")[0].split("-")[0]
    return f"{head.strip()}{number_text}{rest.partition(']')[2].split(',')[0]}"
