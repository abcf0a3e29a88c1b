"""Which cores of a node each rank gets, and which of them oneCCL's workers take.

The order is that of IPEX's launcher (intel-extension-for-pytorch, cpu/launch/launcher_distributed.py): the first cores
of a rank are for its workers, the others for its threads, one hardware thread of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.numbers import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.machine.cpus import Machine

# Any of these says that the user pins ranks.
PINNED = ("I_MPI_PIN", "I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST", "CCL_WORKER_AFFINITY")


def can_bind(machine: Machine, ranks: int) -> bool:
    """Return whether each of several ranks can have cores of its own: under a quota they belong to others, too."""
    return 1 < ranks <= machine.physical and machine.owned


def split(machine: Machine, count: int) -> list[list[int]]:
    """Return the cores of each of `count` ranks, neighbours together; a core is the number of its first processor."""
    ordered = [min(core) for node in machine.nodes for core in machine.siblings if min(core) in node]
    total = len(ordered)
    return [ordered[total * rank // count : total * (rank + 1) // count] for rank in range(count)]


def worker_cpus(shares: list[list[int]], workers: int) -> str | None:
    """List the processors of all workers, rank by rank as oneCCL counts them; None if a rank has no core to spare."""
    if any(len(share) <= workers for share in shares):
        return None
    return ",".join(str(cpu) for share in shares for cpu in share[:workers]) or None


def domain(shares: list[list[int]], workers: int) -> str:
    """Return one mask for the threads of each rank, as I_MPI_PIN_DOMAIN takes them."""
    return f"[{','.join(hex(sum(1 << cpu for cpu in share[workers:])) for share in shares)}]"


def pin_ranks(machine: Machine, count: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give ranks their cores without those of oneCCL's workers, which have others.

    Elsewhere hydra's own division is right. It is for nodes that are alike, each with `count` ranks.
    """
    workers = number(environ, "CCL_WORKER_COUNT") if environ.get("CCL_ROOT") else None
    if not workers or not machine.owned or count > machine.physical or any(environ.get(name) for name in PINNED):
        return {}
    shares = split(machine, count)
    cpus = worker_cpus(shares, workers)
    return {"CCL_WORKER_AFFINITY": cpus, "I_MPI_PIN_DOMAIN": domain(shares, workers)} if cpus else {}
