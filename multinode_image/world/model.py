"""The world of a process, and what may have made it: launchers of ranks and of nodes, and schedulers around them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Callable, NamedTuple, Union

from multinode_image.reading import whole

ALONE = "alone"
MPI = "mpi"
MPIJOB_LAUNCHER = "mpijob-launcher"
MPIJOB_WORKER = "mpijob-worker"
SLURM = "slurm"
TORCHRUN = "torchrun"
TORCHRUN_WORKER = "torchrun-worker"

EVERY_NODE = "export PET_NNODES, PET_NODE_RANK (from 0) and PET_MASTER_ADDR on every node"
SET_MASTER = "export MASTER_ADDR=node0"
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
    def is_first(self) -> bool:
        """Return whether rank 0 is here, or may be."""
        return not self.rank and not self.node_rank

    @property
    def is_unstarted(self) -> bool:
        """Return whether no launcher has started ranks: this process becomes one, or torchrun that starts them."""
        return self.launcher in (ALONE, TORCHRUN)

    @property
    def was_launched(self) -> bool:
        """Return whether a launcher has made this process a rank, or what starts the ranks of its world."""
        return self.launcher not in (ALONE, MPIJOB_LAUNCHER, MPIJOB_WORKER)

    @property
    def needs_torchrun(self) -> bool:
        """Return whether a training is started by torchrun here."""
        return self.launcher == TORCHRUN or (self.launcher == ALONE and self.several)


class Names(NamedTuple):
    """The variables that say the place of a rank; of several the first that is set counts.

    rank: the number of this process; size: how many there are; local_rank: its number among those of its node;
    local_size: how many ranks its node has; nodes: how many nodes there are; job: what only the processes of this job
    share, the surest first; a dot joins variables.
    """

    rank: str = ""
    size: str = ""
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    job: tuple[str, ...] = ()


class Proof(NamedTuple):
    """What proves a launcher: a fact in words, and whether it holds."""

    fact: str
    holds: Callable[[Mapping[str, str]], bool]


class RankLauncher(NamedTuple):
    """What has started each rank, and says its place: a row of table.py.

    kind: one of the words above; allocation: how many nodes were allocated, where nothing says how many ranks this one
    has; count_here: finds that in the environment and the size; hosts: the variable with the address of rank 0's node,
    or a list that begins with it; set_master: how all ranks get a variable; proof: other variables than `rank` and
    `size` of several; started: whether this process is a rank of its world already, and not one that may start others.
    """

    kind: str
    names: Names
    allocation: tuple[str, ...] = ()
    count_here: Callable[[Mapping[str, str], int], int | None] = lambda environ, size: None
    hosts: str = ""
    set_master: str = SET_MASTER
    proof: Proof | None = None
    started: bool = True

    @property
    def why(self) -> str:
        """Return the fact that proves this launcher."""
        return self.proof.fact if self.proof else f"{self.names.rank} and {self.names.size} are set"

    def proves(self, environ: Mapping[str, str]) -> bool:
        """Return whether this process was started so; in a world of one somebody may start others."""
        return self.proof.holds(environ) if self.proof else counts_several(environ, self.names.rank, self.names.size)


class NodeLauncher(NamedTuple):
    """What has started a process on each node, which may start ranks there, by torchrun if there are several nodes.

    kind: one of the words above; read: finds the world that its variables describe, or raises Refusal where they
    contradict each other; node_rank: the variable with the number of this node, or its name in a list; nodes: how many
    there are, empty where a list says it; hosts: the address of the first, or a list, may have a `*`; job: as in Names;
    proof: other variables than these.
    """

    kind: str
    read: Callable[[Mapping[str, str], NodeLauncher], World]
    node_rank: str = ""
    nodes: str = ""
    hosts: str = ""
    job: tuple[str, ...] = ()
    proof: Proof | None = None

    @property
    def why(self) -> str:
        """Return the fact that proves this launcher."""
        return self.proof.fact if self.proof else f"{self.nodes or self.hosts} and {self.node_rank} are set"

    @property
    def started(self) -> bool:
        """Return whether this process is a rank of a world already: it is none."""
        return False

    def proves(self, environ: Mapping[str, str]) -> bool:
        """Return whether this process was started so, as one of several."""
        if self.proof:
            return self.proof.holds(environ)
        lists = list_hosts(environ, self.hosts)
        if not lists or not all_set(self.node_rank)(environ):
            return False
        several = sum(map(len, lists.values())) > 1
        return counts_several(environ, self.node_rank, self.nodes) if self.nodes else several


Launcher = Union[RankLauncher, NodeLauncher]


class Scheduler(NamedTuple):
    """What a scheduler says in an allocation, where it starts ranks or others do.

    prefix: how its variables begin; names: of the processes that it starts, which ranks of mpirun read as well, behind
    their own; hosts: those that list several; marks: those that say that there are several by a text, as a pattern;
    kind: what ranks are that it has started, empty where it starts none; count_here, set_master: as in RankLauncher;
    allocates: whether it counts nodes or slots that were allocated, and not what was started there; remedy: how ranks
    are started there.
    """

    prefix: str
    names: Names = Names()
    hosts: tuple[str, ...] = ()
    marks: Mapping[str, str] = {}
    kind: str = ""
    count_here: Callable[[Mapping[str, str], int], int | None] = lambda environ, size: None
    set_master: str = SET_MASTER
    allocates: bool = False
    remedy: str = ""


def counts_several(environ: Mapping[str, str], rank: str, size: str) -> bool:
    """Return whether both variables are set, and there are several, or a number that is none: reading refuses that."""
    return all_set(rank, size)(environ) and whole(environ[size]) != 1


def list_hosts(environ: Mapping[str, str], pattern: str) -> dict[str, list[str]]:
    """Return the hosts in each variable with a name like this; without those that have none."""
    names = [name for name in sorted(environ) if fnmatchcase(name, pattern)]
    return {name: hosts for name in names if (hosts := split_hosts(environ[name]))}


def all_set(*names: str) -> Callable[[Mapping[str, str]], bool]:
    """Return a proof: every one of these variables has a value."""
    return lambda environ: all(environ.get(name, "").strip() for name in names)


def split_hosts(text: str) -> list[str]:
    """List the hosts of `["a", "b"]`, of `a,b`, of `a b` or of lines, each once; without reading JSON."""
    return list(dict.fromkeys(text.translate(BETWEEN).split()))
