"""The place of a rank, or of a node, as the variables of its launcher say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from zlib import crc32

from multinode_image.errors import Refusal
from multinode_image.reading import PORT, first_number, is_loopback, number, read_host, read_port, unbracket, whole
from multinode_image.world.model import (
    EVERY_NODE,
    TORCHRUN,
    TORCHRUN_WORKER,
    NodeLauncher,
    RankLauncher,
    World,
    list_hosts,
)
from multinode_image.world.torchrun import read_count

# With any of these, rank 0 need not be on the first node of a list, which is sorted (srun(1), --distribution=arbitrary,
# --het-group).
UNSORTED = ("SLURM_HOSTFILE", "SLURM_ARBITRARY_NODELIST", "SLURM_HET_SIZE")


def gave_pmi(environ: Mapping[str, str]) -> bool:
    """Return whether the PMI of this process is that of its step: srun --mpi=pmi2.

    The proxies of hydra are tasks of a step as well, so that PMI_RANK may be SLURM_PROCID by chance; hydra says how
    many ranks it has put on a node, and Slurm does not.
    """
    pairs = (("PMI_RANK", "SLURM_PROCID"), ("PMI_SIZE", "SLURM_STEP_NUM_TASKS"))
    same = all(environ.get(one) == environ.get(other) for one, other in pairs)
    return same and not environ.get("MPI_LOCALNRANKS")


def is_in_step(environ: Mapping[str, str]) -> bool:
    """Return whether srun started this process, so that what the step says counts, and not what the job has.

    The shell of salloc and the batch script have step ids of ten digits, from 0xFFFFFFF0 (slurm/slurm.h,
    SLURM_INTERACTIVE_STEP), which `whole` takes for no number.
    """
    is_step = whole(environ.get("SLURM_STEP_ID", "")) is not None
    return is_step and bool(environ.get("SLURM_STEP_NUM_TASKS", "").strip()) and not is_left_over(environ)


def is_left_over(environ: Mapping[str, str]) -> bool:
    """Return whether the step is an outer one, in which somebody typed sbatch or salloc, which set the job's counts."""
    pairs = (("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"), ("SLURM_NNODES", "SLURM_STEP_NUM_NODES"))
    counts = [(whole(environ.get(one, "")), whole(environ.get(other, ""))) for one, other in pairs]
    return any(None not in pair and pair[0] != pair[1] for pair in counts)


def count_tasks(environ: Mapping[str, str], size: int) -> int | None:
    """Return how many tasks this node of the step has, from `3,2(x2)`; None if the list is not one of all tasks."""
    node = whole(environ.get("SLURM_NODEID", ""))
    rows = [read_tasks(part) for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(",")]
    if node is None or sum(tasks * nodes for tasks, nodes in rows) != size:
        return None
    for tasks, nodes in rows:
        if node < nodes:
            return tasks or None
        node -= nodes
    return None


def read_tasks(part: str) -> tuple[int, int]:
    """Return the tasks of a node and the number of such nodes in `2(x3)` or `2`; nothing for anything else."""
    tasks, times, nodes = part.strip().rstrip(")").partition("(x")
    return whole(tasks) or 0, (whole(nodes) or 0) if times else 1


def find_first_host(environ: Mapping[str, str]) -> str:
    """Return where rank 0 usually is, the first node of the step or of the job; empty where nothing says it."""
    if environ.get("SLURM_DISTRIBUTION", "").startswith("arbitrary") or any(environ.get(name) for name in UNSORTED):
        return ""
    return first_host(environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", ""))


def first_host(nodelist: str) -> str:
    """Return the first host of Slurm's list: `rack[0-1]n[003-007,9],login1` begins with rack0n003."""
    first = re.match(r"(\[[^]]*\]?|[^,[])*", nodelist.strip())
    return re.sub(r"\[([^],-]*)[^]]*\]?", r"\1", first[0] if first else "")


# Where the port of a job is chosen from that says who it is. Above the ports that programs are known for, below those
# of NodePorts of Kubernetes (30000-32767) and those that Linux gives to connections (ip_local_port_range, 32768-60999).
PORTS = range(20000, 29000)
UNCOUNTED = "nothing says how many ranks this node has, so each gets its share of all: export LOCAL_WORLD_SIZE"


def read_rank(environ: Mapping[str, str], launcher: RankLauncher) -> World:
    """Return the place of a process whose launcher has already given it one."""
    names = launcher.names
    rank, size = number(environ, names.rank), number(environ, names.size)
    if rank is None or not size or rank >= size:
        value = " ".join(f"{name}={environ.get(name)}" for name in (names.rank, names.size))
        remedy = f"start it by its launcher, which sets both, or unset what that has left ({launcher.why})"
        raise Refusal("the rank is not below the size of the world", value, remedy)
    nodes, local_size = read_layout(environ, launcher, size)
    master, is_guess = read_master(environ, launcher, nodes[1])
    job = find_job(environ, names.job)
    return World(
        launcher.kind,
        launcher.why,
        nodes,
        local_size=local_size,
        rank=rank,
        local_rank=first_number(environ, names.local_rank) or 0,
        size=size,
        master=master,
        port=find_port(environ, job),
        job=job,
        guessed=("master",) if is_guess else (),
        started_alone=not launcher.started,
        notes=(UNCOUNTED,) if nodes[0] < nodes[1] else (),
    )


def read_layout(environ: Mapping[str, str], launcher: RankLauncher, size: int) -> tuple[tuple[int, int], int]:
    """Return the fewest and the most nodes, and the ranks of this one, which are all where nothing says how many.

    Where nothing counts the nodes, each has as many ranks as this one.
    """
    local = first_number(environ, launcher.names.local_size) or launcher.count_here(environ, size)
    count = first_number(environ, launcher.names.nodes)
    if local is None:
        count = count or first_number(environ, launcher.allocation)
        if not count:
            return (1, size), size
        local = -(-size // count)
    local = min(local, size)
    nodes = 1 if local == size else max(2, min(count or -(-size // local), size))
    return (nodes, nodes), local


def read_master(environ: Mapping[str, str], launcher: RankLauncher, nodes: int) -> tuple[str, bool]:
    """Return the node where rank 0 listens, and whether that is a guess; ranks on one node meet on loopback.

    By hand several nodes may be processes of one machine.
    """
    text, by_hand = environ.get("MASTER_ADDR", ""), launcher.kind == TORCHRUN_WORKER
    if nodes == 1 and not (unbracket(text) and by_hand):
        return "127.0.0.1", False
    host = read_host(text, "MASTER_ADDR") or read_first_host(environ, launcher.hosts)
    guess = "" if host else find_first_host(environ)
    if not host and not guess:
        remedy = f"give every rank the name of rank 0's node: {launcher.set_master}"
        raise Refusal("the ranks are on several nodes and MASTER_ADDR is not set", f"{nodes} nodes", remedy)
    if is_loopback(host) and not by_hand:
        remedy = f"the name of rank 0's node on the network: {launcher.set_master}"
        raise Refusal("the ranks are on several nodes and MASTER_ADDR is this node only", host, remedy)
    return host or guess, not host


def read_first_host(environ: Mapping[str, str], name: str) -> str:
    """Return the host of rank 0 that a launcher's own variable names; empty without one."""
    hosts = next(iter(list_hosts(environ, name).values()), [])
    return read_host(hosts[0], name) if hosts else ""


def read_node(environ: Mapping[str, str], launcher: NodeLauncher) -> World:
    """Return the world of a job whose nodes torchrun has to bring together; the host of its first node is its master.

    Raise Refusal where its variables do not say which of its nodes this one is.
    """
    lists = list_hosts(environ, launcher.hosts)
    hosts = next(iter(lists.values()), [])
    here = environ[launcher.node_rank].strip()
    if launcher.nodes:
        nodes, rank = number(environ, launcher.nodes) or 0, number(environ, launcher.node_rank)
    else:
        hosts = sorted(hosts) if here in hosts else hosts  # names are in one order on all nodes
        nodes, rank = len(hosts), hosts.index(here) if here in hosts else whole(here)
    if rank is None or rank >= nodes or len(lists) > 1:
        value = f"{launcher.node_rank}={here} of {nodes} in {launcher.nodes or ', '.join(lists)}"
        names = f"{launcher.nodes or launcher.hosts} and {launcher.node_rank}"
        remedy = f"{names} as the scheduler sets them, or {EVERY_NODE}"
        raise Refusal("the job does not say which of its nodes this one is", value, remedy)
    host = read_host(hosts[0], launcher.hosts)
    job = find_job(environ, launcher.job)
    world = World(launcher.kind, launcher.why, (nodes, nodes), rank, read_count(environ), master=host, job=job)
    return world._replace(port=find_port(environ, job))


def find_job(environ: Mapping[str, str], variables: tuple[str, ...]) -> str:
    """Return what only the ranks of a job share, up to a `#`, behind which is a node; empty without one."""
    for name, *others in (names.split(".") for names in variables):
        if environ.get(name):
            values = [environ[name].partition("#")[0], *(environ[other] for other in others if environ.get(other))]
            return f"{name}={'.'.join(values)}"
    return ""


def find_port(environ: Mapping[str, str], job: str) -> int:
    """Return where the master listens: as somebody says, else where the name of the job leads to."""
    return read_port(environ.get("MASTER_PORT", "")) or choose_port(job)


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
    slurm_job = environ.get("SLURM_HET_JOB_ID") or environ.get("SLURM_JOB_ID", "")
    return world._replace(job=environ.get("PET_RDZV_ID", "") or "-".join(filter(None, (task, slurm_job))))


def read_job_name(environ: Mapping[str, str]) -> str:
    """Return what only the ranks of one job share: what the entrypoint named, and torchrun's own name for it."""
    return " ".join(environ[name] for name in ("MULTINODE_JOB", "TORCHELASTIC_RUN_ID") if environ.get(name))
