"""The size of the world and our place in it: what a launcher is, and how ranks are read from its variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.numbers import number, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

ALONE = "alone"
MPI = "mpi"
MPIJOB_LAUNCHER = "mpijob-launcher"
MPIJOB_WORKER = "mpijob-worker"
SLURM = "slurm"
TORCHRUN = "torchrun"
TORCHRUN_WORKER = "torchrun-worker"

PORT = 29500
LOOPBACK = ("localhost", "::1")


class World(NamedTuple):
    """How many processes train together, and which of them this one is.

    A node's rank and a process's rank are None where torchrun hands them out later; so is the number of processes on
    a node (local_size) until the machine is known.
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
        """Return the smallest and the largest number of processes."""
        if self.size is not None:
            return self.size, self.size
        each = self.local_size or 1
        return self.nodes[0] * each, self.nodes[1] * each

    @property
    def asked(self) -> str:
        """Return the size as it is asked for: `2`, or `1:4` where nodes may come and go."""
        low, high = self.sizes
        return str(low) if low == high else f"{low}:{high}"

    @property
    def several_nodes(self) -> bool:
        """Return whether anything leaves this node."""
        return self.nodes[1] > 1


class Launcher(NamedTuple):
    """One way in which this process may have been started.

    why: the fact that proves it; proof: whether its variables are there; world: the world that they describe, or
    Refusal where they contradict each other; started: whether it has made this process a rank of a world already.
    """

    kind: str
    why: str
    proof: Callable[[Mapping[str, str]], bool]
    world: Callable[[Mapping[str, str]], World]
    started: bool = False


class Ranks(NamedTuple):
    """The names under which one launcher hands out ranks; a local name may be absent.

    ranks_of_node: how many ranks a node has where no variable says so, given how many there are; host: the node of
    rank 0 where MASTER_ADDR is not set; loopback: whether a master on loopback is right for ranks on several nodes.
    """

    rank: str
    size: str
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    ranks_of_node: Callable[[Mapping[str, str], int], int] = lambda environ, size: size
    host: Callable[[Mapping[str, str]], str] = lambda environ: ""
    loopback: bool = False


def all_set(*names: str) -> Callable[[Mapping[str, str]], bool]:
    """Return a proof: every one of these variables has a value."""
    return lambda environ: all(environ.get(name, "").strip() for name in names)


def make_launcher(kind: str, why: str, ranks: Ranks, proof: Callable[[Mapping[str, str]], bool]) -> Launcher:
    """Return the launcher that has given this process a rank under these names."""
    return Launcher(kind, why, proof, lambda environ: read_rank(environ, kind, why, ranks), started=True)


def read_rank(environ: Mapping[str, str], kind: str, why: str, names: Ranks) -> World:
    """Return the place of a process whose launcher has already given it one."""
    rank, size = number(environ, names.rank), number(environ, names.size)
    if rank is None or not size or rank >= size:
        value = f"{names.rank}={environ.get(names.rank)} {names.size}={environ.get(names.size)}"
        remedy = f"start it by its launcher, which sets both, or unset what that has left ({why})"
        raise Refusal("the rank is not below the size of the world", value, remedy)
    local_rank, local_size = first_number(environ, names.local_rank), first_number(environ, names.local_size)
    if local_size is None:
        local_size = names.ranks_of_node(environ, size)
    local_size = min(local_size or size, size)
    nodes = -(-size // max(local_size, 1))
    master, port = read_master(environ, names, nodes)
    return World(kind, why, (nodes, nodes), None, local_size, rank, local_rank or 0, size, master, port)


def first_number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """Return the first of several variables that is set; None if none is."""
    return next((value for value in (number(environ, name) for name in names) if value is not None), None)


def read_master(environ: Mapping[str, str], names: Ranks, nodes: int) -> tuple[str, int]:
    """Return where rank 0 listens; what is not known is never guessed for ranks on several nodes."""
    host = environ.get("MASTER_ADDR", "").strip()
    port = read_port(environ.get("MASTER_PORT", "").strip(), "MASTER_PORT=")
    if not host and nodes == 1:
        return "127.0.0.1", port
    host = host or names.host(environ)
    remedy = "export MASTER_ADDR=<host of rank 0>, for example mpirun -genv MASTER_ADDR node0"
    if not host:
        raise Refusal("the ranks are on several nodes and MASTER_ADDR is not set", f"{nodes} nodes", remedy)
    if nodes > 1 and is_loopback(host) and not names.loopback:
        raise Refusal("the ranks are on several nodes and MASTER_ADDR is this node only", host, remedy)
    return host, port


def read_port(text: str, name: str) -> int:
    """Return where the master listens; Kubernetes sets MASTER_PORT=tcp://... for a service of the name master."""
    port = whole(text) if text else PORT
    if port is None or port > 65535:
        raise Refusal("the master's port is not a number below 65536", repr(text), f"export {name}{PORT}")
    return port or PORT


def is_loopback(host: str) -> bool:
    """Return whether a name can only mean the machine it is used on."""
    return host in LOOPBACK or host.startswith("127.")
