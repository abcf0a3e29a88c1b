"""Slurm: the tasks of a step that srun has started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.launchers.world import SLURM, Ranks, all_set, first_number, make_launcher
from entrypoint.numbers import number

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_one_of_several(environ: Mapping[str, str]) -> bool:
    """Return whether srun started this process as one of several.

    A batch script has SLURM_PROCID=0 as well, but no SLURM_STEP_NUM_TASKS; a step of one task per job is a box in
    which somebody may start torchrun or mpirun, so the variables of those decide.
    """
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    return all_set(*names)(environ) and (number(environ, "SLURM_STEP_NUM_TASKS") or 0) > 1


def count_ranks_of_node(environ: Mapping[str, str], size: int) -> int:
    """Divide the ranks by the nodes of the step; 1 where nothing says how many nodes there are."""
    nodes = first_number(environ, ("SLURM_STEP_NUM_NODES", "SLURM_NNODES"))
    return -(-size // nodes) if nodes else 1


def find_first_host(environ: Mapping[str, str]) -> str:
    """Return the node of rank 0, the first of the step's list; empty without a list."""
    return first_host(environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", ""))


def first_host(nodelist: str) -> str:
    """Return the first host of Slurm's list: `node[003-007,9],login1` begins with node003."""
    head, bracket, rest = nodelist.partition("[")
    if not bracket or "," in head:
        return head.split(",")[0].strip()
    number_text = rest.split("]")[0].split(",")[0].split("-")[0]
    return f"{head.strip()}{number_text}{rest.partition(']')[2].split(',')[0]}"


STEP = make_launcher(SLURM, "SLURM_PROCID and SLURM_STEP_NUM_TASKS are set", Ranks(
    "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_LOCALID",),
    ranks_of_node=count_ranks_of_node, host=find_first_host,
), is_one_of_several)  # fmt: skip
