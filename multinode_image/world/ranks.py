"""The place of a rank, or of a node, as the variables of its launcher say it."""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from multinode_image.addresses import PORT, is_loopback, read_host, read_port, unbracket
from multinode_image.errors import Refusal
from multinode_image.numbers import first_number, number, whole
from multinode_image.world import slurm
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
    guess = "" if host else slurm.find_first_host(environ)
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
            values = [environ[name].partition("#")[0], *(environ[each] for each in others if environ.get(each))]
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
