"""Flux, horovodrun, AWS Batch, SageMaker and Volcano, and what PBS and SageMaker write into files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from entrypoint.errors import Refusal
from entrypoint.numbers import number, whole
from entrypoint.world.model import (
    FLUX,
    HERE,
    HOROVOD,
    TORCHRUN,
    Launcher,
    Ranks,
    World,
    all_set,
    choose_port,
    make_launcher,
    read_master_port,
)  # fmt: skip
from entrypoint.world.slurm import find_first_host
from entrypoint.world.torchrun import read_count

if TYPE_CHECKING:
    from collections.abc import Mapping

# Where SageMaker says which hosts there are, also to images that are not its own.
SAGEMAKER = "/opt/ml/input/config/resourceconfig.json"
BATCH = "AWS_BATCH_JOB_"


def is_above_one(*names: str) -> Callable[[Mapping[str, str]], bool]:
    """Return a proof: all of these variables are set, and the last, a size, is not 1.

    A size that is no number counts as well, so that it is refused when the world is read.
    """
    return lambda environ: all_set(*names)(environ) and whole(environ[names[-1]]) != 1


def make_job_reader(*names: str) -> Callable[[Mapping[str, str]], str]:
    """Return a function that reads the name of a job from the first of these variables that is set.

    What follows a # is of one node only.
    """

    def name(environ: Mapping[str, str]) -> str:
        return next((f"{each}={environ[each].partition('#')[0]}" for each in names if environ.get(each)), "")

    return name


def make_nodes(environ: Mapping[str, str], why: str, nodes: int, node_rank: int, master: str) -> World:
    """Return a world for torchrun from what a scheduler says of its nodes."""
    job = make_job_reader("AWS_BATCH_JOB_ID", "TRAINING_JOB_NAME", "VC_JOB_NAME")(environ)
    port = read_master_port(environ.get("MASTER_PORT", "").strip()) or choose_port(job)
    each = read_count(environ)
    return World(TORCHRUN, why, (nodes, nodes), node_rank, each, master=master, port=port, job=job)


def read_batch(environ: Mapping[str, str], why: str) -> World:
    """Return the world of a multi-node parallel job of AWS Batch (userguide, mnp-env-vars); its main node is rank 0.

    The main node's address is set on the others only.
    """
    nodes, index = number(environ, f"{BATCH}NUM_NODES") or 0, number(environ, f"{BATCH}NODE_INDEX") or 0
    main = number(environ, f"{BATCH}MAIN_NODE_INDEX") or 0
    if max(index, main) >= nodes:
        remedy = f"the variables that AWS Batch sets, or unset {BATCH}NUM_NODES to train alone"
        raise Refusal("the node's index is not below the number of nodes", f"{index} of {nodes}", remedy)
    master = HERE if index == main else environ.get(f"{BATCH}MAIN_NODE_PRIVATE_IPV4_ADDRESS", "").strip()
    if not master:
        remedy = f"export {BATCH}MAIN_NODE_PRIVATE_IPV4_ADDRESS=<address of the main node>"
        raise Refusal("AWS Batch gives no address of the main node", f"node {index} of {nodes}", remedy)
    return make_nodes(environ, why, nodes, number_node(index, main), master)


def number_node(index: int, main: int) -> int:
    """Return the rank of a node of AWS Batch: the main node is the first, and those before it move up by one."""
    if index == main:
        return 0
    return index + 1 if index < main else index


def read_sagemaker(environ: Mapping[str, str], why: str) -> World:
    """Return the world of a SageMaker job: its hosts in one order everywhere, the first of them rank 0."""
    hosts, here = sorted(set(list_hosts(environ["SM_HOSTS"]))), environ["SM_CURRENT_HOST"].strip()
    if here not in hosts:
        remedy = "SM_HOSTS and SM_CURRENT_HOST as SageMaker sets them, or unset SM_HOSTS to train alone"
        raise Refusal("SageMaker's list of hosts does not have this one", here, remedy)
    return make_nodes(environ, why, len(hosts), hosts.index(here), hosts[0])


def list_hosts(text: str) -> list[str]:
    """List the hosts of `["algo-1", "algo-2"]` or `algo-1,algo-2`, without reading JSON."""
    return [host for host in (part.strip(' "[]\n\t') for part in text.split(",")) if host]


def has_several_hosts(environ: Mapping[str, str]) -> bool:
    """Return whether SageMaker has started this job on several hosts."""
    return all_set("SM_HOSTS", "SM_CURRENT_HOST")(environ) and len(set(list_hosts(environ["SM_HOSTS"]))) > 1


def list_groups(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the hosts of each group of tasks of a Volcano job: VC_WORKER_HOSTS=job-worker-0.job,job-worker-1.job."""
    names = [name for name in environ if name.startswith("VC_") and name.endswith("_HOSTS")]
    return {name: hosts for name, hosts in ((name, list_hosts(environ[name])) for name in sorted(names)) if hosts}


def has_tasks(environ: Mapping[str, str]) -> bool:
    """Return whether this is one of several tasks of a Volcano job."""
    index = environ.get("VC_TASK_INDEX") or environ.get("VK_TASK_INDEX", "")
    return bool(index.strip()) and sum(len(hosts) for hosts in list_groups(environ).values()) > 1


def read_volcano(environ: Mapping[str, str], why: str) -> World:
    """Return the world of a Volcano job; raise Refusal for several groups of tasks: nothing says which is ours."""
    groups = list_groups(environ)
    index = number(environ, "VC_TASK_INDEX" if environ.get("VC_TASK_INDEX") else "VK_TASK_INDEX") or 0
    hosts = next(iter(groups.values()))
    if len(groups) > 1 or index >= len(hosts):
        remedy = "add Volcano's pytorch plugin to the job (plugins: pytorch: []), or make it of one group of tasks"
        raise Refusal("the job does not say which of its tasks this one is", f"{index} in {', '.join(groups)}", remedy)
    return make_nodes(environ, why, len(hosts), index, hosts[0])


def make_scheduler(
    why: str, proof: Callable[[Mapping[str, str]], bool], read: Callable[[Mapping[str, str], str], World]
) -> Launcher:
    """Return a scheduler whose nodes are to meet by torchrun."""
    return Launcher(TORCHRUN, why, proof, lambda environ: read(environ, why))


def read_files(environ: Mapping[str, str], read: Callable[[str], str | None]) -> dict[str, str]:
    """Return as variables what two schedulers say in files; read returns the text of a file, or None.

    PBS lists its nodes in PBS_NODEFILE, one line for each rank; SageMaker its hosts in a file of JSON.
    """
    found: dict[str, str] = {}
    if environ.get("PBS_NODEFILE") and not environ.get("PBS_NUM_NODES"):
        text = read(environ["PBS_NODEFILE"])
        if text is not None:
            found["PBS_NUM_NODES"] = str(len(set(text.split())))
    text = None if environ.get("SM_HOSTS") else read(SAGEMAKER)
    if text is not None:
        import json  # read_stack has it loaded already

        try:
            hosts, here = json.loads(text)["hosts"], json.loads(text)["current_host"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return found
        found.update(SM_HOSTS=",".join(map(str, hosts)) if isinstance(hosts, list) else "", SM_CURRENT_HOST=str(here))
    return found


FLUX_TASK = make_launcher(FLUX, "FLUX_TASK_RANK and FLUX_JOB_SIZE are set", Ranks(
    "FLUX_TASK_RANK", "FLUX_JOB_SIZE", ("FLUX_TASK_LOCAL_ID",), nodes=("FLUX_JOB_NNODES",), host=find_first_host,
    job=make_job_reader("FLUX_JOB_ID"), remedy="flux run --env=MASTER_ADDR=$(flux hostlist --nth=0 local) ...",
), is_above_one("FLUX_TASK_RANK", "FLUX_JOB_SIZE"))  # fmt: skip
HOROVODRUN = make_launcher(HOROVOD, "HOROVOD_RANK and HOROVOD_SIZE are set", Ranks(
    "HOROVOD_RANK", "HOROVOD_SIZE", ("HOROVOD_LOCAL_RANK",), ("HOROVOD_LOCAL_SIZE",), host=find_first_host,
    remedy="MASTER_ADDR=node0 horovodrun ...",
), is_above_one("HOROVOD_RANK", "HOROVOD_SIZE"))  # fmt: skip
AWS_BATCH = make_scheduler(
    "AWS_BATCH_JOB_NUM_NODES is set", is_above_one(f"{BATCH}NODE_INDEX", f"{BATCH}NUM_NODES"), read_batch
)
SAGEMAKER_JOB = make_scheduler("SM_HOSTS and SM_CURRENT_HOST are set", has_several_hosts, read_sagemaker)
VOLCANO = make_scheduler("VC_*_HOSTS and VC_TASK_INDEX are set", has_tasks, read_volcano)
