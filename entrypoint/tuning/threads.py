"""Threads of a rank and oneCCL's workers beside them: how many, and on which cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.image import release
from entrypoint.numbers import number, read_cpus, whole, write_cpus
from entrypoint.tuning.scene import RANKS, SINGLE, UNKNOWN
from entrypoint.world.model import MPI, SLURM

if TYPE_CHECKING:
    from entrypoint.tuning.scene import Scene

OPENMP = "/usr/local/lib/libiomp5.so"
# From here on Python makes new processes by a server that it starts anew, and not by a fork of its own process
# (docs.python.org/3.14/whatsnew, multiprocessing).
SERVES_FORKS = (3, 14)


class Cores(NamedTuple):
    """How the cores that this process sees are divided: among ranks, and in a rank between threads and workers.

    These are values of variables, None where the variable is not set: threads of OMP_NUM_THREADS, affinity of
    KMP_AFFINITY, offload of CCL_WORKER_OFFLOAD, worker_cpus of CCL_WORKER_AFFINITY.
    """

    threads: str | None
    affinity: str | None
    offload: str | None
    worker_cpus: str | None


def divide_cores(scene: Scene) -> Cores:
    """Return the division, step by step: ranks, their workers, the workers' processors, and what is left for threads.

    What the user has set for the workers decides where they run; what we would set does so otherwise.
    """
    own = has_own_cores(scene)
    each = count_cores(scene, own=own)
    asked = count_workers(scene)
    offload = choose_offload(scene, each, asked)
    workers = 0 if (scene.environ.get("CCL_WORKER_OFFLOAD") or offload) == "0" else asked
    worker_cpus = place_workers(scene, workers, own=own)
    places = (scene.environ.get("CCL_WORKER_AFFINITY") or worker_cpus or "") if workers else ""
    busy = read_cpus(places)
    threads = count_threads(scene, each - count_lost(scene, workers, busy, own=own))
    affinity = bind_threads(scene, busy) if own and each >= scene.machine.cores else None
    return Cores(threads, affinity, offload, worker_cpus)


def has_own_cores(scene: Scene) -> bool:
    """Return whether all the cores that this process sees are those of one rank.

    A launcher may have given several ranks the same ones; then they are more than an even share of the container's,
    unless the launcher itself says that they are not shared.
    """
    machine, count = scene.machine, scene.world.local_size or 1
    even = is_pinned(scene) and machine.cores <= -(-machine.around // count)
    return count == 1 or even or is_slurms_own(scene) or is_hydras_own(scene)


def is_pinned(scene: Scene) -> bool:
    """Return whether a launcher pinned this rank; a mask around what starts ranks is one for all of them."""
    return scene.machine.pinned and scene.world.rank is not None


def count_task_cpus(scene: Scene) -> int | None:
    """Return the processors that Slurm gives to each task of this step; None where it does not say, or is not there."""
    environ, world = scene.environ, scene.world
    if world.launcher not in (MPI, SLURM) or whole(environ.get("SLURM_STEP_NUM_TASKS", "")) != world.size:
        return None
    return whole(environ.get("SLURM_CPUS_PER_TASK", ""))


def is_slurms_own(scene: Scene) -> bool:
    """Return whether our processors are too few for all tasks of this node, so that Slurm has bound us to ours."""
    each = count_task_cpus(scene) or 0
    return each * (scene.world.local_size or 1) > len(scene.machine.cpus)


def is_hydras_own(scene: Scene) -> bool:
    """Return whether Intel MPI has pinned every rank of this node to other processors: `2:0 0,1 28`, rank and first."""
    environ = scene.environ
    if scene.world.launcher != MPI or read_cpus(environ.get("I_MPI_PIN_INFO", "")) != scene.machine.cpus:
        return False
    rows = environ.get("I_MPI_PIN_MAPPING", "").partition(":")[2].split(",")
    first = [row.split()[-1] for row in rows if row.strip()]
    return len(first) > 1 and len(set(first)) == len(first)


def count_cores(scene: Scene, *, own: bool) -> int:
    """Count the cores of one rank."""
    machine, most = scene.machine, count_task_cpus(scene) or scene.machine.cores
    if own:
        return min(machine.cores, most)
    every = machine.around if is_pinned(scene) else machine.cores
    return max(1, min(every // (scene.world.local_size or 1), most))


def count_workers(scene: Scene) -> int:
    """Count the workers of one rank that oneCCL is asked for; a world of one needs none."""
    if scene.stack.backend != "ccl" or scene.world.sizes[1] < 2:
        return 0
    count = number(scene.environ, "CCL_WORKER_COUNT")
    if count == 0 and scene.training:
        remedy = "export CCL_WORKER_COUNT=1, or unset it: with 0 gloo is taken, or oneCCL ends at the first collective"
        raise Refusal("oneCCL needs a worker", "CCL_WORKER_COUNT=0", remedy)
    return 1 if count is None else count


def choose_offload(scene: Scene, each: int, workers: int) -> str | None:
    """Return 0 where a rank has no core to spare: there its own threads do the work of oneCCL's workers.

    Under hydra, which tells it a rank's cores, oneCCL decides so itself (src/common/env/env.cpp).
    """
    return "0" if scene.training and workers and workers >= each else None


def place_workers(scene: Scene, workers: int, *, own: bool) -> str | None:
    """Return the processors of oneCCL's workers: the first cores of their ranks; None where they are not pinned.

    oneCCL itself takes the last processors of the whole host (src/common/env/env.cpp), which a container may not
    have. Its list has entries for all ranks of the node; a pinned rank knows only its own cores, and fills it with
    them. Nodes that see all of a host may be containers beside each other: their workers begin at other cores, by the
    number of the node or else by its name.
    """
    ranks = scene.world.local_size or 1
    if not workers or not scene.training or not scene.machine.owned:
        return None
    # A number of ranks that was mistyped must not make a list of a million processors.
    if scene.machine.physical // (1 if own else ranks) <= workers:
        return None
    from entrypoint.tuning.cores import split, worker_cpus  # an image without oneCCL pays nothing for it

    shares = split(scene.machine, 1) * ranks if own else split(scene.machine, ranks)
    first = 0 if has_machine(scene) else number_node(scene) * workers
    return worker_cpus([rotate(share, first) for share in shares], workers)


def number_node(scene: Scene) -> int:
    """Return the number of this node; one made of its name, in which two nodes may agree, where nobody says it."""
    known = scene.world.node_rank
    return sum(scene.environ.get("HOSTNAME", "").encode(errors="replace")) if known is None else known


def rotate(cores: list[int], first: int) -> list[int]:
    """Return cores in their order, beginning with the one of this number, counted around."""
    place = first % max(1, len(cores))
    return [*cores[place:], *cores[:place]]


def has_machine(scene: Scene) -> bool:
    """Return whether no other node of this world can be a container beside this one, with the same cores."""
    return scene.machine.narrowed or not scene.world.several_nodes


def count_lost(scene: Scene, workers: int, busy: frozenset[int], *, own: bool) -> int:
    """Count the cores of one rank that workers take: none if they are pinned to cores that are not the rank's."""
    if not busy or not scene.machine.siblings:
        return workers
    taken = sum(1 for core in scene.machine.siblings if core & busy)
    return taken if own else -(-taken // (scene.world.local_size or 1))


def count_threads(scene: Scene, cores: int) -> str | None:
    """Return the number of threads: one for each core of a rank that no worker takes, and one where there is none.

    None before a program that starts nobody knows how many ranks, each of which would take it for its own.
    """
    return None if scene.kind == UNKNOWN else str(max(1, cores))


def bind_threads(scene: Scene, busy: frozenset[int]) -> str | None:
    """Return KMP_AFFINITY, which binds the threads of a rank that has all cores that it sees; None where it may not.

    `compact` binds the threads of every process to the first processors it sees. Ranks that torchrun starts see
    the same ones, and so do containers that share a host: all would sit on the same cores, and each would wait for
    threads that the others keep from running. A node of several that sees all of the host cannot know whether another
    node is a container beside it; a single one is taken to have the host to itself, as in the guide. A shell, or a
    program that starts ranks, would hand it on to all of them. A thread that is bound hands its processor on to what
    it starts: Intel's OpenMP takes that back in a fork alone, so the workers of a DataLoader would all share that one.
    """
    if scene.kind not in (RANKS, SINGLE) or release(scene.stack.python) >= SERVES_FORKS:
        return None
    if not (scene.machine.owned and has_machine(scene) and has_iomp(scene)):
        return None
    free = frozenset(min(core) for core in scene.machine.siblings if not core & busy)
    if not busy or not free or len(free) == len(scene.machine.siblings):
        return "granularity=fine,compact,1,0"
    return f"granularity=fine,proclist=[{write_cpus(free)}],explicit"


def has_iomp(scene: Scene) -> bool:
    """Return whether Intel's OpenMP, which alone reads KMP_*, will be there."""
    return scene.exists(OPENMP)
