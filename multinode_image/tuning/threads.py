"""How a rank divides its cores between its threads and oneCCL's workers: one rule for plans and for torchrun's ranks.

As in IPEX's launcher (intel-extension-for-pytorch, cpu/launch/launcher_distributed.py), the first cores of a rank are
for its workers and the others for its threads, one hardware thread of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.machine.cpus import Machine
from multinode_image.machine.image import release
from multinode_image.reading import number, read_cpus, whole
from multinode_image.tuning.context import Context, Role
from multinode_image.world.model import MPI, SLURM
from multinode_image.world.starters import MPIRUN


class Node(NamedTuple):
    """The cores that some ranks have together.

    numa: the processors of each core, by NUMA node; most: how many cores may be kept busy; exclusive: whether no quota
    makes other containers share them.
    """

    numa: tuple[tuple[frozenset[int], ...], ...]
    most: int
    exclusive: bool

    @property
    def cores(self) -> tuple[frozenset[int], ...]:
        """List the cores, neighbours together."""
        return tuple(core for node in self.numa for core in node)


class Share(NamedTuple):
    """Cores that `ranks` use together, and the most of them that each may keep busy; spread: on several NUMA nodes."""

    cores: tuple[frozenset[int], ...]
    most: int
    ranks: int
    spread: bool


def see_node(machine: Machine) -> Node:
    """Return the cores of a machine as a node for ranks."""
    numa = tuple(tuple(core for core in machine.siblings if min(core) in node) for node in machine.nodes)
    return Node(numa, machine.cores, machine.exclusive)


def share(node: Node, ranks: int, place: int | None = None) -> Share:
    """Return what one of several ranks gets: cores of its own, neighbours together, or a part of what all use together.

    They share all cores under a quota, where there are fewer cores than ranks, and where the place of the rank among
    those of the node is not known.
    """
    cores, most, total = node.cores, max(1, node.most // ranks), len(node.cores)
    if place is not None and node.exclusive and ranks <= total:
        cores, ranks = cores[total * place // ranks : total * (place + 1) // ranks], 1
        most = len(cores)
    spread = sum(not frozenset(cores).isdisjoint(domain) for domain in node.numa) > 1
    return Share(cores, most, ranks, spread)


def find_share(context: Context) -> Share:
    """Return the share of each rank of this node, or of this rank alone where it has the cores that it sees to itself.

    A mask with more cores than an even share of the container's is one mask for several ranks, unless Slurm says how
    many processors each task has.
    """
    machine, ranks, of_task = context.machine, context.world.local_size or 1, count_task_cpus(context)
    node, pinned = see_node(machine), is_pinned(context)
    even = pinned and machine.cores <= -(-machine.container_cores // ranks)
    # Where Slurm gives each task more than its share of what we see, we see the processors of one task.
    if even or (of_task or 0) * ranks > len(machine.cpus):
        ranks = 1
    elif pinned:
        node = node._replace(most=machine.container_cores)
    mine = share(node, ranks)
    return mine._replace(most=min(mine.most, of_task or mine.most))


def is_pinned(context: Context) -> bool:
    """Return whether a launcher pinned this rank; a mask around what starts ranks is one for all of them."""
    return context.machine.pinned and context.world.rank is not None


def count_task_cpus(context: Context) -> int | None:
    """Return the processors that Slurm gives to each task of this step; None where it says nothing of our ranks."""
    environ, world = context.environ, context.world
    if world.launcher not in (MPI, SLURM) or whole(environ.get("SLURM_STEP_NUM_TASKS", "")) != world.size:
        return None
    return whole(environ.get("SLURM_CPUS_PER_TASK", ""))


# Libraries that are preloaded: an allocator and Intel's OpenMP, where the image has them.

OPENMP = "/usr/local/lib/libiomp5.so"
# tcmalloc comes first: an allocator must be loaded before anything allocates. The first path that exists is taken.
PRELOADS = {
    "tcmalloc": ("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", "/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4"),
    "Intel's OpenMP": (OPENMP,),
}


def list_preloads(context: Context) -> dict[str, str]:
    """Return the path of each library to preload that the image has, by what it is."""
    libraries = {name: next(filter(context.process.has_file, paths), "") for name, paths in PRELOADS.items()}
    return {name: path for name, path in libraries.items() if path}


def has_iomp(context: Context) -> bool:
    """Return whether Intel's OpenMP, which alone reads KMP_*, will be there: the user's LD_PRELOAD may leave it out."""
    words = context.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    yours = [word for word in words if "libnss_wrapper" not in word]  # that one gives this user a name
    return context.process.has_file(OPENMP) and (not yours or any("libiomp5" in word for word in yours))


# Whether threads may be bound to cores: what we bind, and what the user has bound that a process does not get.

# Variables that bind threads to processors, and values of them that do not (OpenMP 5.2, 21.2; Intel's and GNU's).
BINDINGS = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET")
LOOSE = ("", "false", "none", "disabled")
# From here on Python makes new processes by a server that it starts anew, and not by a fork of its own process
# (docs.python.org/3.14/whatsnew, multiprocessing).
SERVES_FORKS = (3, 14)
# What computes itself, or what we start to start ranks: others may start any number of programs.
COMPUTING = (Role.RANK, Role.AGENT, Role.MEMBER, Role.PROGRAM)
# By which a user has bound threads, or not; Intel's OpenMP would ignore them beside KMP_AFFINITY.
OF_THE_USER = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")


def list_bindings(context: Context) -> dict[str, str]:
    """Return the variables that a process does not get: those by which ranks would all be bound to the same core."""
    return read_bindings(context.environ) if must_not_bind(context) else {}


def read_bindings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that bind threads."""
    return {name: environ[name] for name in BINDINGS if environ.get(name, "").strip().lower() not in LOOSE}


def must_not_bind(context: Context) -> bool:
    """Return whether a process may not bind its threads: it would hand that on to ranks, or shares its cores."""
    if context.process.starter:  # the ranks of an mpirun are pinned by it, but not under a quota
        return context.process.starter != MPIRUN or not context.machine.exclusive
    alone = context.world.rank is None or not context.world.several
    return not alone and not (context.machine.exclusive and find_share(context).ranks == 1)


def warn_bindings(context: Context) -> list[str]:
    """Return a note on variables that a process does not get."""
    lost = " ".join(f"{name}={value}" for name, value in list_bindings(context).items())
    return [f"{lost} is left out: it would bind all ranks of this node to the same core"] if lost else []


def may_bind_threads(context: Context) -> bool:
    """Return whether KMP_AFFINITY may bind the threads of a rank that has the cores of several NUMA nodes to itself.

    Processes that share cores, or have the variable from a shell, would all be bound to the first of them. A bound
    thread hands its processor on to what it starts: Intel's OpenMP takes that back in a fork alone, so the workers of a
    DataLoader that are not forked would share one.
    """
    is_ours = context.process.role in COMPUTING and not any(context.environ.get(name) for name in OF_THE_USER)
    forks = release(context.stack.python) < SERVES_FORKS
    return is_ours and forks and context.machine.exclusive and shares_no_cores(context) and has_iomp(context)


def shares_no_cores(context: Context) -> bool:
    """Return whether no other node of this world can be a container beside this one, with the same cores."""
    return context.machine.restricted or not context.world.several_nodes


# How a rank divides its cores between its threads and oneCCL's workers: one rule for plans and for torchrun's ranks.
#
# As in IPEX's launcher (intel-extension-for-pytorch, cpu/launch/launcher_distributed.py), the first cores of a rank are
# for its workers and the others for its threads, one hardware thread of each.

# KMP_AFFINITY that keeps threads beside their memory where there are several NUMA nodes. Within one it gains nothing,
# and beside another busy process on one of the cores all wait for the thread that is bound there: 4.4 s instead of 2.9.
BOUND = "granularity=fine,compact,1,0"


class Cores(NamedTuple):
    """How threads and oneCCL's workers divide the cores of a rank: values of variables, None where one is not set."""

    threads: str | None
    affinity: str | None
    offload: str | None
    worker_cpus: str | None


def divide_cores(context: Context) -> Cores:
    """Return the division for the ranks of a node; processors that the user has chosen for the workers count."""
    mine, planned = find_share(context), count_workers(context)
    offload = "0" if context.is_of_world and planned and planned >= mine.most else None
    workers = keep_workers(planned, mine, context.environ)
    worker_cpus = place_workers(context, workers, mine)
    chosen = context.environ.get("CCL_WORKER_AFFINITY", "")
    variables = set_threads(mine, workers, chosen, bind=may_bind_threads(context))
    # Of ranks that nobody has counted each has the cores to which its launcher binds it; under a quota none is bound.
    threads = (
        None if context.process.role is Role.STARTER and context.machine.exclusive else variables["OMP_NUM_THREADS"]
    )
    return Cores(threads, variables.get("KMP_AFFINITY"), offload, worker_cpus)


def keep_workers(planned: int, mine: Share, environ: Mapping[str, str]) -> int:
    """Count the workers of oneCCL that need cores of a rank; none where the rank does their work itself.

    A rank without a core to spare does, unless CCL_WORKER_OFFLOAD says otherwise: so oneCCL decides where it knows the
    cores of a rank (src/common/env/env.cpp).
    """
    offload = environ.get("CCL_WORKER_OFFLOAD")
    return 0 if offload == "0" or (not offload and planned >= mine.most) else planned


def set_threads(mine: Share, workers: int, worker_cpus: str, *, bind: bool) -> dict[str, str]:
    """Return the variables of a rank's threads.

    workers: those of oneCCL in each rank, which take cores from its threads; worker_cpus: the processors of the workers
    of all ranks, empty where nobody has chosen them; bind: whether threads may be bound to cores.
    """
    busy = read_cpus(worker_cpus) if workers else frozenset()
    lost = -(-sum(1 for core in mine.cores if core & busy) // mine.ranks) if busy else workers
    alone = mine.most == len(mine.cores)  # no other rank has a part of them
    bound = {"KMP_AFFINITY": BOUND} if bind and alone and mine.spread and not workers else {}
    return {"OMP_NUM_THREADS": str(max(1, mine.most - lost)), **bound}


def count_workers(context: Context) -> int:
    """Count the workers of oneCCL in a rank; a world of one needs none. Raise Refusal for a training without any."""
    if context.stack.backend != "ccl" or not context.world.several:
        return 0
    count = number(context.environ, "CCL_WORKER_COUNT")
    if count == 0 and context.is_of_world:
        remedy = "export CCL_WORKER_COUNT=1, or unset it: with 0 gloo is taken, or oneCCL ends at the first collective"
        raise Refusal("oneCCL needs a worker", "CCL_WORKER_COUNT=0", remedy)
    return 1 if count is None else count


def place_workers(context: Context, workers: int, mine: Share) -> str | None:
    """Return the processors of oneCCL's workers: the first cores of their ranks; None where they are not pinned.

    oneCCL itself takes the last processors of the host (src/common/env/env.cpp), which a container may not have. The
    list is for all ranks of the node; a pinned rank fills it with its own cores. Under a quota, and where containers
    beside this one may have the same cores, nothing is pinned; nor where a rank has no core to spare.
    """
    machine, node = context.machine, see_node(context.machine)
    if not workers or not context.is_of_world or not machine.exclusive or not shares_no_cores(context):
        return None
    # A number of ranks that was mistyped must not make a list of a million processors.
    if machine.physical // mine.ranks <= workers:
        return None
    shares = (share(node, mine.ranks, place % mine.ranks) for place in range(context.world.local_size or 1))
    return ",".join(str(min(core)) for part in shares for core in part.cores[:workers])
