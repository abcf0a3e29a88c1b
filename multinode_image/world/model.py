"""The world of a process, and a launcher: the variables by which it describes one."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Callable, NamedTuple

from multinode_image.numbers import whole

ALONE = "alone"
MPI = "mpi"
MPIJOB_LAUNCHER = "mpijob-launcher"
MPIJOB_WORKER = "mpijob-worker"
SLURM = "slurm"
TORCHRUN = "torchrun"
TORCHRUN_WORKER = "torchrun-worker"

EVERY_NODE = "export PET_NNODES, PET_NODE_RANK (from 0) and PET_MASTER_ADDR on every node"
NO_LAUNCHER = "no launcher's variables are set"
# What stands between the hosts of a list, beside blanks.
BETWEEN = str.maketrans(dict.fromkeys("[]\"',;", " "))


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
    def several(self) -> bool:
        """Return whether there may be more than one process."""
        return self.sizes[1] > 1

    @property
    def several_nodes(self) -> bool:
        """Return whether anything leaves this node."""
        return self.nodes[1] > 1

    @property
    def is_unstarted(self) -> bool:
        """Return whether no launcher has started ranks: this process becomes one, or torchrun that starts them."""
        return self.launcher in (ALONE, TORCHRUN)

    @property
    def needs_torchrun(self) -> bool:
        """Return whether a training is started by torchrun here."""
        return self.launcher == TORCHRUN or (self.launcher == ALONE and self.several)


class Launcher(NamedTuple):
    """One way in which this process may have been started, and the variables that say its place: a row of table.py.

    A launcher has started each rank, or a process on each node, where torchrun has to start the ranks: then `rank` is
    that of the node and `size` counts nodes.

    proof: whether its variables are there, if not `rank` and `size` prove it; fact: what proves it; read: finds the
    world that they describe, or raises Refusal where they contradict each other; started: whether it has made this
    process a rank of a world already.

    Names of variables, of several the first that is set counts:
    - rank: the number of this process, or its name in a list; size: how many there are, empty where a list says it
    - local_rank: its number among those of its node; local_size: how many ranks its node has
    - nodes: how many nodes there are; allocation: how many a scheduler has allocated, where nothing says local_size
    - hosts: the address of rank 0's node, or a list that begins with it; may have a `*`, and torchrun's nodes need it
    - job: what only the processes of this job share, the surest first; a dot joins variables

    count_here: finds local_size in the environment and the size; remedy: how all ranks get a variable; loopback:
    whether a master on loopback is right for several nodes.
    """

    kind: str
    read: Callable[[Mapping[str, str], Launcher], World]
    proof: Callable[[Mapping[str, str]], bool] | None = None
    fact: str = ""
    started: bool = True
    rank: str = ""
    size: str = ""
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    allocation: tuple[str, ...] = ()
    count_here: Callable[[Mapping[str, str], int], int | None] = lambda environ, size: None
    hosts: str = ""
    job: tuple[str, ...] = ()
    remedy: str = "export MASTER_ADDR=node0"
    loopback: bool = False

    @property
    def why(self) -> str:
        """Return the fact that proves this launcher."""
        names = (self.rank, self.size) if self.started else (self.size or self.hosts, self.rank)
        return self.fact or f"{names[0]} and {names[1]} are set"

    def proves(self, environ: Mapping[str, str]) -> bool:
        """Return whether this process was started so; in a world of one somebody may start others."""
        if self.proof is not None:
            return self.proof(environ)
        lists = self.find_hosts(environ)
        if not all_set(self.rank)(environ) or (self.hosts and not lists and not self.started):
            return False
        return self.has_several(environ) if self.size else sum(map(len, lists.values())) > 1

    def has_several(self, environ: Mapping[str, str]) -> bool:
        """Return whether there are several, or a number that is none, which is refused when it is read."""
        return all_set(self.rank, self.size)(environ) and whole(environ[self.size]) != 1

    def find_hosts(self, environ: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the hosts in each variable of `hosts`; without those that have none."""
        names = [name for name in sorted(environ) if fnmatchcase(name, self.hosts)]
        return {name: hosts for name in names if (hosts := split_hosts(environ[name]))}


class Scheduler(NamedTuple):
    """What a scheduler says in an allocation where others start the ranks, or a launcher that names no size and rank.

    prefix: how its variables begin; sizes, ranks, hosts: those that say that there are several, by a number or a list;
    marks: those that say it by a text, as a pattern; nodes, local_rank, local_size, job: what ranks of mpirun read of
    it, as of a Launcher; allocates: whether it counts nodes or slots that were allocated, and not what was started
    there; remedy: how ranks are started there.
    """

    prefix: str
    sizes: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    marks: Mapping[str, str] = {}
    nodes: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    job: tuple[str, ...] = ()
    allocates: bool = False
    remedy: str = ""


def all_set(*names: str) -> Callable[[Mapping[str, str]], bool]:
    """Return a proof: every one of these variables has a value."""
    return lambda environ: all(environ.get(name, "").strip() for name in names)


def split_hosts(text: str) -> list[str]:
    """List the hosts of `["a", "b"]`, of `a,b`, of `a b` or of lines, each once; without reading JSON."""
    return list(dict.fromkeys(text.translate(BETWEEN).split()))
