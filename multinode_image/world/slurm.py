"""Slurm: whether srun has started this process, and its lists of nodes and tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from multinode_image.numbers import whole

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
