"""The world of a process, and how its place there is read from the variables of a launcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, NamedTuple
from zlib import crc32

from entrypoint.addresses import is_loopback, read_ipv6
from entrypoint.errors import Refusal
from entrypoint.numbers import LAST_PORT, first_number, number, whole

ALONE = "alone"
FLUX = "flux"
HOROVOD = "horovod"
MPI = "mpi"
MPIJOB_LAUNCHER = "mpijob-launcher"
MPIJOB_WORKER = "mpijob-worker"
SLURM = "slurm"
TORCHRUN = "torchrun"
TORCHRUN_WORKER = "torchrun-worker"

PORT = 29500
# Where the port of a job is chosen from that says who it is. Above the ports that programs are known for, below those
# of NodePorts of Kubernetes (30000-32767) and those that Linux gives to connections (ip_local_port_range, 32768-60999).
PORTS = range(20000, 29000)
NO_LAUNCHER = "no launcher's variables are set"
UNCOUNTED = "nothing says how many ranks this node has, so each gets its share of all: export LOCAL_WORLD_SIZE"
# The master where it is this node, whose address nothing has said.
THIS_NODE = "this node"


class World(NamedTuple):
    """How many processes train together, and which of them this one is.

    nodes: the fewest and the most; node_rank, rank, local_rank: None where torchrun gives them later; local_size: the
    processes of this node, None until the machine is known; job: what only the processes of this job share, if anything
    says so; guessed: `master` where that is the first of a list of hosts, `local_size` where it follows from the cores
    of this machine; started_alone: an mpirun started this process as its only one; outer: what started this process,
    where a torchrun is typed, which has a world of its own; notes: what may be wrong.
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
    job: str = ""
    guessed: tuple[str, ...] = ()
    started_alone: bool = False
    outer: Launcher | None = None
    notes: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the smallest and the largest number of processes."""
        if self.size is not None:
            return self.size, self.size
        local = self.local_size or 1
        return self.nodes[0] * local, self.nodes[1] * local

    @property
    def size_text(self) -> str:
        """Return the size as torchrun reads it: `2`, or `1:4` where nodes may come and go."""
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
    """The variables in which one launcher gives a process its place.

    nodes: the number of nodes; allocation: that of the allocation, which counts where no variable says how many ranks
    this node has; ranks_of_node: finds that number in the environment and the size; host: finds the node of rank 0
    where MASTER_ADDR is not set; job: finds what only these ranks share; remedy: how this launcher gives all ranks a
    variable; loopback: whether a master on loopback is right for several nodes.
    """

    rank: str
    size: str
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    allocation: tuple[str, ...] = ()
    ranks_of_node: Callable[[Mapping[str, str], int], int | None] = lambda environ, size: None
    host: Callable[[Mapping[str, str]], str] = lambda environ: ""
    job: Callable[[Mapping[str, str]], str] = lambda environ: ""
    remedy: str = "export MASTER_ADDR=node0"
    loopback: bool = False


def all_set(*names: str) -> Callable[[Mapping[str, str]], bool]:
    """Return a proof: every one of these variables has a value."""
    return lambda environ: all(environ.get(name, "").strip() for name in names)


def make_launcher(
    kind: str, ranks: Ranks, proof: Callable[[Mapping[str, str]], bool] | None = None, why: str = ""
) -> Launcher:
    """Return the launcher that has given this process a rank under these names.

    By default a rank and a size that is not 1 prove it: in a world of one somebody may start others.
    """
    why = why or f"{ranks.rank} and {ranks.size} are set"
    proof = proof or (lambda environ: has_several(environ, ranks))
    return Launcher(kind, why, proof, lambda environ: read_rank(environ, kind, why, ranks), started=True)


def has_several(environ: Mapping[str, str], ranks: Ranks) -> bool:
    """Return whether this process is one of several, or has a size that is no number, which is refused when read."""
    return all_set(ranks.rank, ranks.size)(environ) and whole(environ[ranks.size]) != 1


def read_rank(environ: Mapping[str, str], kind: str, why: str, names: Ranks) -> World:
    """Return the place of a process whose launcher has already given it one."""
    rank, size = number(environ, names.rank), number(environ, names.size)
    if rank is None or not size or rank >= size:
        value = f"{names.rank}={environ.get(names.rank)} {names.size}={environ.get(names.size)}"
        remedy = f"start it by its launcher, which sets both, or unset what that has left ({why})"
        raise Refusal("the rank is not below the size of the world", value, remedy)
    local_rank = first_number(environ, names.local_rank) or 0
    nodes, local_size = read_layout(environ, names, size)
    job = names.job(environ)
    master, guessed = read_master(environ, names, nodes[1])
    port = read_master_port(environ.get("MASTER_PORT", "").strip()) or choose_port(job)
    found = World(kind, why, nodes, None, local_size, rank, local_rank, size, master, port, job)
    notes = (UNCOUNTED,) if nodes[0] < nodes[1] else ()
    return found._replace(guessed=("master",) if guessed else (), notes=notes)


def read_layout(environ: Mapping[str, str], names: Ranks, size: int) -> tuple[tuple[int, int], int]:
    """Return the fewest and the most nodes, and the ranks of this one, which are all where nothing says how many.

    Where nothing counts the nodes, each has as many ranks as this one.
    """
    local = first_number(environ, names.local_size) or names.ranks_of_node(environ, size)
    count = first_number(environ, names.nodes)
    if local is None:
        count = count or first_number(environ, names.allocation)
        if not count:
            return (1, size), size
        local = -(-size // count)
    local = min(local, size)
    nodes = 1 if local == size else max(2, min(count or -(-size // local), size))
    return (nodes, nodes), local


def read_master(environ: Mapping[str, str], names: Ranks, nodes: int) -> tuple[str, bool]:
    """Return the node where rank 0 listens, and whether that is a guess; ranks on one node meet on loopback."""
    text = environ.get("MASTER_ADDR", "")
    if nodes == 1 and not (unbracket(text) and names.loopback):
        return "127.0.0.1", False
    host = read_host(text, "MASTER_ADDR")
    guess = "" if host else names.host(environ)
    if not host and not guess:
        remedy = f"give every rank the name of rank 0's node: {names.remedy}"
        raise Refusal("the ranks are on several nodes and MASTER_ADDR is not set", f"{nodes} nodes", remedy)
    if is_loopback(host) and not names.loopback:
        remedy = f"the name of rank 0's node on the network: {names.remedy}"
        raise Refusal("the ranks are on several nodes and MASTER_ADDR is this node only", host, remedy)
    return host or guess, not host


def read_host(text: str, name: str) -> str:
    """Return the host of a variable; raise Refusal for what is none, and would be waited for in vain."""
    host = unbracket(text)
    if not can_be_host(host):
        remedy = f"export {name}=HOST without quotes and blanks; a port belongs in {name.replace('ADDR', 'PORT')}"
        raise Refusal(f"{name} is neither a name nor an address", repr(text), remedy)
    return host


def can_be_host(text: str) -> bool:
    """Return whether a text may be a name, an address, or nothing; Docker's names have underscores."""
    return bool(read_ipv6(text)) or all(letter.isalnum() or letter in "-._" for letter in text)


def unbracket(host: str) -> str:
    """Return an address of IPv6 without the brackets that URLs need."""
    return host.strip().strip("[]")


def read_master_port(text: str, remedy: str = f"export MASTER_PORT={PORT}") -> int | None:
    """Return where the master listens, None if nobody said. Raise Refusal for what is no port: torchrun waits at 0."""
    if not text:
        return None
    port = whole(text)
    if not port or port > LAST_PORT:
        raise Refusal("the master's port is not a number from 1 to 65535", repr(text), remedy)
    return port


def choose_port(job: str) -> int:
    """Return a port that jobs on one node rarely share; 29500 for a job without a name."""
    if not job:
        return PORT
    return PORTS[crc32(job.encode("utf-8", "surrogateescape")) % len(PORTS)]


def name_job(world: World, environ: Mapping[str, str], task: str) -> World:
    """Return a rendezvous with a name for its job, so that two jobs that meet at one endpoint do not become one.

    Only what is the same on all nodes is in it: nodes may have several names for the master.
    """
    if world.launcher != TORCHRUN or world.job or not world.several_nodes or not task:
        return world
    slurm = environ.get("SLURM_HET_JOB_ID") or environ.get("SLURM_JOB_ID", "")
    return world._replace(job=environ.get("PET_RDZV_ID", "") or "-".join(part for part in (task, slurm) if part))


def read_job_name(environ: Mapping[str, str]) -> str:
    """Return what only the ranks of one job share: what the entrypoint named, and torchrun's own name for it."""
    return " ".join(environ[name] for name in ("MULTINODE_JOB", "TORCHELASTIC_RUN_ID") if environ.get(name))
