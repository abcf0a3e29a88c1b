"""How a rank divides its cores between its threads and oneCCL's workers: one rule for plans and for torchrun's ranks.

As in IPEX's launcher (intel-extension-for-pytorch, cpu/launch/launcher_distributed.py), the first cores of a rank are
for its workers and the others for its threads, one hardware thread of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from multinode_image.errors import Refusal
from multinode_image.numbers import number, read_cpus
from multinode_image.tuning.binding import may_bind_threads, shares_no_cores
from multinode_image.tuning.context import Context, Role
from multinode_image.tuning.share import Share, find_share, see_node, share

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
    chosen = context.environ.get("CCL_WORKER_AFFINITY") or worker_cpus or ""
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
    alone = mine.ranks == 1 and mine.most == len(mine.cores)
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
    return ",".join(str(min(core)) for each in shares for core in each.cores[:workers])
