"""What the variables of a step of Slurm say, and whether they are those of this step."""

from __future__ import annotations

import pytest

from multinode_image.world.ranks import is_left_over

STEP = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2"}


@pytest.mark.parametrize(
    ("job", "left"),
    [
        ({"SLURM_NTASKS": "4", "SLURM_NNODES": "2"}, False),
        ({"SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, True),  # sbatch within a step, on as many nodes
        ({"SLURM_NTASKS": "4", "SLURM_NNODES": "3"}, True),
        ({"SLURM_NTASKS": "8"}, True),
        ({}, False),
    ],
)
def test_a_step_is_left_over_where_one_count_of_the_job_differs(job: dict[str, str], left: bool) -> None:
    assert is_left_over({**STEP, **job}) is left
