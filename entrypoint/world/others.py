"""Other schedulers, one row each: by which variables they tell a node, or a process, of its place in a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Callable, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.numbers import number, whole
from entrypoint.world.model import (
    FLUX,
    HOROVOD,
    THIS_NODE,
    TORCHRUN,
    Launcher,
    World,
    all_set,
    choose_port,
    make_launcher,
    read_host,
    read_master_port,
)
from entrypoint.world.mpi import COMMON, name_like
from entrypoint.world.torchrun import EVERY_NODE, read_count

# Where SageMaker says which hosts there are, also to images that are not its own.
SAGEMAKER = "/opt/ml/input/config/resourceconfig.json"
# What stands between the hosts of a list, beside blanks.
BETWEEN = str.maketrans(dict.fromkeys("[]\"',;", " "))


class Scheduler(NamedTuple):
    """The variables of a scheduler that starts one process on every node, where torchrun has to start the ranks.

    rank: the number of this node, or its name in a list; master: the address of the first node, or a list that begins
    with it, whose name may have a `*`; nodes: how many there are, empty where the list says it; job: what only the
    nodes of this job share, up to a `#`; master_rank: the number of the master, for a scheduler that does not tell the
    master its own address.
    """

    rank: str
    master: str
    nodes: str = ""
    job: str = ""
    master_rank: str = ""

    @property
    def why(self) -> str:
        """Return the fact that proves this scheduler."""
        return f"{self.nodes or self.master} and {self.rank} are set"


# A scheduler with variables of its own is a row here, a recorded environment and a row of tests/data/launchers.toml.
SCHEDULERS = (
    # AWS Batch, multi-node parallel jobs (user guide, mnp-env-vars): the main node has no address of itself.
    Scheduler(
        rank="AWS_BATCH_JOB_NODE_INDEX",
        master="AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
        nodes="AWS_BATCH_JOB_NUM_NODES",
        job="AWS_BATCH_JOB_ID",
        master_rank="AWS_BATCH_JOB_MAIN_NODE_INDEX",
    ),
    # SageMaker (aws/sagemaker-training-toolkit, ENVIRONMENT_VARIABLES.md)
    Scheduler("SM_CURRENT_HOST", "SM_HOSTS", job="TRAINING_JOB_NAME"),
    # Volcano, plugins env and svc: a list for each group of tasks (volcano-sh/volcano, pkg/controllers/job/plugins)
    Scheduler("VC_TASK_INDEX", "VC_*_HOSTS", job="VC_JOB_NAME"),
    Scheduler("VK_TASK_INDEX", "VC_*_HOSTS", job="VC_JOB_NAME"),
    # SkyPilot (docs.skypilot.co, running-jobs/distributed-jobs)
    Scheduler("SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS", "SKYPILOT_NUM_NODES", "SKYPILOT_TASK_ID"),
    # dstack (dstackai/dstack, runner/internal/executor/executor.go; docs, reference/environment-variables)
    Scheduler("DSTACK_NODE_RANK", "DSTACK_MASTER_NODE_IP", "DSTACK_NODES_NUM", "DSTACK_RUN_ID"),
    # LeaderWorkerSet (kubernetes-sigs/lws)
    Scheduler("LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE"),
    # Instant clusters of RunPod (docs.runpod.io, instant-clusters/configuration), and names that scripts use
    Scheduler("NODE_RANK", "MASTER_ADDR", "NUM_NODES"),
)


def make_nodes(row: Scheduler) -> Launcher:
    """Return a scheduler whose nodes are to meet by torchrun."""
    proof, world = partial(has_nodes, row=row), partial(read_nodes, row=row)
    return Launcher(TORCHRUN, row.why, proof, world)


def has_nodes(environ: Mapping[str, str], row: Scheduler) -> bool:
    """Return whether a job has several nodes, or a number that is none, and says all that they need to meet."""
    lists = find_lists(environ, row.master)
    if not all_set(row.rank)(environ) or not (row.master_rank or lists):
        return False
    if not row.nodes:
        return sum(map(len, lists.values())) > 1
    return all_set(row.nodes)(environ) and whole(environ[row.nodes]) != 1


def read_nodes(environ: Mapping[str, str], row: Scheduler) -> World:
    """Return the world of a job; raise Refusal where its variables do not say which of its nodes this one is."""
    lists = find_lists(environ, row.master)
    hosts = next(iter(lists.values()), [])
    here = environ[row.rank].strip()
    if not row.nodes and here in hosts:
        hosts = sorted(hosts)  # in one order on all nodes
        nodes, rank = len(hosts), hosts.index(here)
    else:
        nodes = (number(environ, row.nodes) or 0) if row.nodes else len(hosts)
        known = number(environ, row.rank) if row.nodes else whole(here)  # a name may be missing in the list
        rank = nodes if known is None else known
    if rank >= nodes or len(lists) > 1:
        value = f"{row.rank}={here} of {nodes} in {row.nodes or ', '.join(lists)}"
        remedy = f"{row.nodes or row.master} and {row.rank} as the scheduler sets them, or {EVERY_NODE}"
        raise Refusal("the job does not say which of its nodes this one is", value, remedy)
    rank = (rank - (number(environ, row.master_rank) or 0)) % nodes if row.master_rank else rank
    host = THIS_NODE if row.master_rank and rank == 0 else read_host("".join(hosts[:1]), row.master)
    if not host:
        value = f"node {rank} of {nodes}"
        raise Refusal("the job gives no address of its first node", value, f"export {row.master}=HOST")
    job = f"{row.job}={environ[row.job].partition('#')[0]}" if environ.get(row.job) else ""
    port = read_master_port(environ.get("MASTER_PORT", "").strip()) or choose_port(job)
    return World(TORCHRUN, row.why, (nodes, nodes), rank, read_count(environ), master=host, port=port, job=job)


def find_lists(environ: Mapping[str, str], pattern: str) -> dict[str, list[str]]:
    """Return the hosts in each variable of a name, in which `*` is for any letters; without those that have none."""
    names = [name for name in sorted(environ) if fnmatchcase(name, pattern)]
    return {name: hosts for name in names if (hosts := split_hosts(environ[name]))}


def split_hosts(text: str) -> list[str]:
    """List the hosts of `["a", "b"]`, of `a,b`, of `a b` or of lines, each once; without reading JSON."""
    return list(dict.fromkeys(text.translate(BETWEEN).split()))


def read_files(environ: Mapping[str, str], read: Callable[[str], str | None]) -> dict[str, str]:
    """Return as variables what two schedulers say in files: PBS has a line for each rank, SageMaker a list in JSON."""
    found: dict[str, str] = {}
    if environ.get("PBS_NODEFILE") and not environ.get("PBS_NUM_NODES"):
        text = read(environ["PBS_NODEFILE"])
        if text is not None:
            found["PBS_NUM_NODES"] = str(len(set(text.split())))
    text = None if environ.get("SM_HOSTS") else read(SAGEMAKER)
    if text is not None:
        try:
            hosts, here = json.loads(text)["hosts"], json.loads(text)["current_host"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return found
        found.update(SM_HOSTS=",".join(map(str, hosts)) if isinstance(hosts, list) else "", SM_CURRENT_HOST=str(here))
    return found


# flux-environment(7)
FLUX_TASK = make_launcher(
    FLUX,
    COMMON._replace(
        rank="FLUX_TASK_RANK",
        size="FLUX_JOB_SIZE",
        local_rank=("FLUX_TASK_LOCAL_ID",),
        nodes=("FLUX_JOB_NNODES",),
        remedy="flux run --env=MASTER_ADDR=$(flux hostlist --nth=0 local) ...",
    ),
)
# horovod/runner/gloo_run.py
HOROVODRUN = make_launcher(HOROVOD, name_like("HOROVOD", "MASTER_ADDR=node0 horovodrun ..."))
NODES = tuple(make_nodes(row) for row in SCHEDULERS)
