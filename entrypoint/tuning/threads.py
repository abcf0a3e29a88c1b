"""How many ranks a node gets, and how each divides its share of the cores between threads and oneCCL's workers.

As in IPEX's launcher (intel-extension-for-pytorch, cpu/launch/launcher_distributed.py), the first cores of a rank are
for its workers and the others for its threads, one hardware thread of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.cpus import Machine
from entrypoint.machine.image import Stack, release
from entrypoint.numbers import number, read_cpus, whole
from entrypoint.tuning.share import Share, see_node, share
from entrypoint.world.model import MPI, SLURM, World

OPENMP = "/usr/local/lib/libiomp5.so"
# What runs in a process: ranks of the world or what starts them, one program that computes, a program that may start
# any others, as a shell, or one that starts a number of ranks which nobody knows.
RANKS, SINGLE, ANY, UNKNOWN = "ranks", "one", "any", "unknown"
# From here on Python makes new processes by a server that it starts anew, and not by a fork of its own process
# (docs.python.org/3.14/whatsnew, multiprocessing).
SERVES_FORKS = (3, 14)
# By which a user has bound threads, or not; Intel's OpenMP would ignore them beside KMP_AFFINITY.
OF_THE_USER = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")


class Process(NamedTuple):
    """What is started, and what it finds in the image.

    runs: what runs in it; training: it is a rank or starts them, so that variables for this world only do no harm;
    program: its name as it is typed; starter: which program that starts ranks it is, empty for any other; checks_size:
    its ranks have to look how many they have become; is_logged: what it prints goes into a log; find_interface: the one
    that leads to the master; has_file: whether the image has a file.
    """

    runs: str = RANKS
    training: bool = True
    program: str = ""
    starter: str = ""
    checks_size: bool = False
    is_logged: bool = False
    find_interface: Callable[[], str | None] = lambda: None
    has_file: Callable[[str], bool] = lambda path: False


class Context(NamedTuple):
    """All that the variables of a process are worked out from; environ: what is set already."""

    world: World
    machine: Machine
    environ: Mapping[str, str]
    stack: Stack
    process: Process


class Cores(NamedTuple):
    """How threads and oneCCL's workers divide the cores of a rank: values of variables, None where one is not set."""

    threads: str | None
    affinity: str | None
    offload: str | None
    worker_cpus: str | None


def read_threads(environ: Mapping[str, str]) -> int | None:
    """Return the first number of OMP_NUM_THREADS; raise Refusal for a text that OpenMP does not read.

    It would take all processors that it sees (OpenMP 5.2, 21.1.2), of which a quota may allow a few.
    """
    text = environ.get("OMP_NUM_THREADS", "").strip()
    if text and not all(map(whole, text.split(","))):
        remedy = "export OMP_NUM_THREADS=4 without quotes in the value, or unset it"
        raise Refusal("OMP_NUM_THREADS is no number that OpenMP reads", repr(text), remedy)
    return whole(text.partition(",")[0])


def set_local_size(world: World, machine: Machine, threads: int | None = None, *, starts: bool = True) -> World:
    """Return the world with a number of processes on this node, by default one for each NUMA node that our cores fill.

    threads: the user's OMP_NUM_THREADS, for which there have to be cores; starts: whether processes are started here.
    """
    ours = world.is_unstarted
    if ours and not starts:  # one process has the whole machine, whatever a variable of the pod says
        return world._replace(local_size=1)
    if world.local_size is not None or not ours:
        return world._replace(local_size=world.local_size or 1)
    most = machine.cores // threads if threads else machine.cores
    count = max(1, min(machine.filled_nodes, most))
    return world._replace(local_size=count, guessed=(*world.guessed, "local_size"))


def divide_cores(context: Context) -> Cores:
    """Return the division; what the user has set for the workers decides where they run, before what we would set."""
    mine, asked = find_share(context), count_workers(context)
    # A rank without a core to spare does the work of oneCCL's workers itself, as oneCCL decides where it knows the
    # cores of a rank (src/common/env/env.cpp).
    offload = "0" if context.process.training and asked and asked >= mine.most else None
    workers = 0 if (context.environ.get("CCL_WORKER_OFFLOAD") or offload) == "0" else asked
    worker_cpus = place_workers(context, workers, mine)
    busy = read_cpus(context.environ.get("CCL_WORKER_AFFINITY") or worker_cpus or "") if workers else frozenset()
    found = mine.set_threads(workers, busy, bind=may_bind_threads(context))
    # Of ranks that nobody has counted each has the cores to which its launcher binds it; under a quota none is bound.
    threads = None if context.process.runs == UNKNOWN and context.machine.owned else found["OMP_NUM_THREADS"]
    return Cores(threads, found.get("KMP_AFFINITY"), offload, worker_cpus)


def find_share(context: Context) -> Share:
    """Return the share of each rank of this node, or of this one alone where all the cores that it sees are its own.

    Several ranks that share a mask have more than an even share of the container's cores, unless the launcher says
    itself that they do not share.
    """
    machine, ranks, of_task = context.machine, context.world.local_size or 1, count_task_cpus(context)
    node, pinned = see_node(machine), is_pinned(context)
    even = pinned and machine.cores <= -(-machine.around // ranks)
    # Where Slurm gives each task more than its share of what we see, we see the processors of one task.
    if even or (of_task or 0) * ranks > len(machine.cpus):
        ranks = 1
    elif pinned and ranks > 1:
        node = node._replace(most=machine.around)
    found = share(node, ranks)
    return found._replace(most=min(found.most, of_task or found.most))


def is_pinned(context: Context) -> bool:
    """Return whether a launcher pinned this rank; a mask around what starts ranks is one for all of them."""
    return context.machine.pinned and context.world.rank is not None


def count_task_cpus(context: Context) -> int | None:
    """Return the processors that Slurm gives to each task of this step; None where it says nothing of our ranks."""
    environ, world = context.environ, context.world
    if world.launcher not in (MPI, SLURM) or whole(environ.get("SLURM_STEP_NUM_TASKS", "")) != world.size:
        return None
    return whole(environ.get("SLURM_CPUS_PER_TASK", ""))


def count_workers(context: Context) -> int:
    """Count the workers of oneCCL in a rank; a world of one needs none. Raise Refusal for a training without any."""
    if context.stack.backend != "ccl" or not context.world.several:
        return 0
    count = number(context.environ, "CCL_WORKER_COUNT")
    if count == 0 and context.process.training:
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
    if not workers or not context.process.training or not machine.owned or not shares_no_cores(context):
        return None
    # A number of ranks that was mistyped must not make a list of a million processors.
    if machine.physical // mine.ranks <= workers:
        return None
    shares = (share(node, mine.ranks, place % mine.ranks) for place in range(context.world.local_size or 1))
    return ",".join(str(min(core)) for each in shares for core in each.cores[:workers])


def shares_no_cores(context: Context) -> bool:
    """Return whether no other node of this world can be a container beside this one, with the same cores."""
    return context.machine.narrowed or not context.world.several_nodes


def may_bind_threads(context: Context) -> bool:
    """Return whether KMP_AFFINITY may bind the threads of a rank that has the cores of several NUMA nodes to itself.

    Processes that share cores, or have the variable from a shell, would all be bound to the first of them. A bound
    thread hands its processor on to what it starts: Intel's OpenMP takes that back in a fork alone, so the workers of a
    DataLoader that are not forked would share one.
    """
    if context.process.runs not in (RANKS, SINGLE) or release(context.stack.python) >= SERVES_FORKS:
        return False
    if any(context.environ.get(name) for name in OF_THE_USER):
        return False
    return context.machine.owned and shares_no_cores(context) and has_iomp(context)


def has_iomp(context: Context) -> bool:
    """Return whether Intel's OpenMP, which alone reads KMP_*, will be there: the user's LD_PRELOAD may leave it out."""
    words = context.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    yours = [word for word in words if "libnss_wrapper" not in word]  # that one gives this user a name
    return context.process.has_file(OPENMP) and (not yours or any("libiomp5" in word for word in yours))
