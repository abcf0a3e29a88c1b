"""All that the variables of a rank are worked out from, and how many processes a node gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.world.model import ALONE, MPI, MPIJOB_LAUNCHER, MPIJOB_WORKER, TORCHRUN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.cpus import Machine
    from entrypoint.machine.image import Stack
    from entrypoint.world.model import World

# What a process becomes: the ranks of the world or what starts them, one program that computes, a shell or another
# program that may start any others, or a program that starts a number of ranks which nobody knows.
RANKS, SINGLE, ANY, UNKNOWN = "ranks", "one", "any", "unknown"
# Up to here, a process for each core may be meant.
MANY = 4
# Slurm may give a job one core for each task, which no option of an mpirun inside makes more.
SHARES = (("SLURM_JOB_ID", "--cpus-per-task or --exclusive of the job"),)
# By a variable that each MPI sets for its ranks, what leaves them unbound; the first that is set counts.
UNBINDING = (
    ("OMPI_COMM_WORLD_RANK", "mpirun --bind-to none (Open MPI)"),
    ("I_MPI_HYDRA_UUID", "export I_MPI_PIN=0 (Intel MPI)"),
    ("PMI_RANK", "mpirun -bind-to none (MPICH)"),
)


class Scene(NamedTuple):
    """All that the values are worked out from.

    training: this process is a rank or starts them, so that variables which are right for this world only do no harm;
    interface: the one that leads to the master; exists: whether the image has a file; environ: what is set already;
    kind: what this process becomes; isolated: there is no network but loopback.
    """

    world: World
    machine: Machine
    stack: Stack
    training: bool
    interface: Callable[[], str | None]
    exists: Callable[[str], bool]
    environ: Mapping[str, str]
    kind: str = RANKS
    isolated: bool = False


def spread_processes(world: World, machine: Machine, threads: int | None = None, *, starts: bool = True) -> World:
    """Return the world with a number of processes per node, by default one for each NUMA node that our cores fill.

    starts: whether processes are started here; one that is not has the whole machine, whatever a variable of the pod
    says. threads: the user's OMP_NUM_THREADS, for which there have to be cores.
    """
    if world.launcher not in (ALONE, TORCHRUN) or not starts:
        each = 1 if world.local_size is None or world.launcher in (ALONE, TORCHRUN) else world.local_size
        return world._replace(local_size=each)
    if world.local_size is not None:
        return world
    most = machine.cores // threads if threads else machine.cores
    count = max(1, min(machine.filled_nodes, most))
    return world._replace(local_size=count, guessed=(*world.guessed, "local_size"))


def warn_shared_cores(world: World, machine: Machine, threads: int | None = None) -> list[str]:
    """Return a note if the processes of this node share cores, or have a single one each."""
    count = world.local_size or 1
    if world.launcher not in (ALONE, TORCHRUN):
        return []
    if count > machine.cores:
        return [f"{count} processes on {machine.cores} core(s): they share them, and are slower than one on each core"]
    if threads and count * threads > machine.cores:
        busy = f"{count} process(es) x {threads} threads (OMP_NUM_THREADS)"
        return [f"{busy} on {machine.cores} core(s): OMP_NUM_THREADS={machine.cores // count} fits"]
    if world.launcher == TORCHRUN and count == machine.cores > MANY and count > machine.filled_nodes:
        fewer = f"{machine.filled_nodes} would be one for each NUMA node: numProcPerNode or nprocPerNode of the job"
        return [f"{count} processes with one thread each, as `auto` of a TrainJob counts the CPU request; {fewer}"]
    return []


def warn_idle_cores(world: World, machine: Machine, environ: Mapping[str, str]) -> list[str]:
    """Return a note if ranks are bound to cores by their MPI, and leave most of them idle."""
    count = world.local_size or 1
    if world.launcher != MPI or not machine.pinned or 2 * count * machine.cores > machine.around:
        return []
    bound = f"{count} rank(s) of this node are bound to {machine.cores} core(s) each, and it has {machine.around}"
    given = [way for name, way in SHARES if environ.get(name)]
    unbound = next((way for name, way in UNBINDING if environ.get(name)), "")
    ways = ", and ".join([*given, *([unbound] if unbound else [])])
    return [f"{bound}; to use them all: {ways}" if ways else bound]


def is_training(world: World, *, job: bool) -> bool:
    """Return whether this process is a rank, or starts the ranks of this world."""
    return job or world.launcher not in (ALONE, MPIJOB_LAUNCHER, MPIJOB_WORKER)


def is_isolated(routes: str | None, routes6: str | None) -> bool:
    """Return whether no route leads anywhere but to loopback, as with `docker run --network none`.

    The table of IPv4 has a head and leaves loopback out, that of IPv6 has neither (/proc/net/route, ipv6_route).
    """
    if routes is None or routes.count("\n") > 1:
        return False
    return all(line.endswith(" lo") for line in (routes6 or "").splitlines())
