"""What `smoke` insists on, without a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from multinode_image.programs.smoke_checks import (
    Failed,
    Report,
    check_flags,
    check_jobs,
    check_reports,
    check_used_backend,
    check_world,
    default_flags,
    launched_size,
)
from tests.support.trainer_fields import HISTORY


@pytest.mark.parametrize(
    ("environ", "size"),
    [
        ({}, 1),
        ({"WORLD_SIZE": "2"}, 2),
        ({"WORLD_SIZE": "1", "PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}, 4),
        ({"WORLD_SIZE": "two"}, 1),
        ({"WORLD_SIZE": "²"}, 1),
    ],
)
def test_the_size_that_the_launcher_started_is_found(environ: dict[str, str], size: int) -> None:
    assert launched_size(environ) == size


JOB, OTHER = "SLURM_JOB_ID=7", "SLURM_JOB_ID=8"
GOOD = Report("a", 3.5, 0.1)


@pytest.mark.parametrize(
    ("check", "given"),
    [
        (check_flags, [[]]),
        (check_world, [2, ["2", "2"]]),
        (check_world, [3, ["1:4"] * 3]),
        (check_world, [4, ["2:", "4"]]),
        (check_jobs, [[JOB, JOB]]),
        (check_jobs, [["", ""]]),
        (check_used_backend, ["gloo", "gloo"]),
        (check_used_backend, ["none", "ccl"]),
        (check_used_backend, ["gloo", ""]),
        (check_reports, [[GOOD, GOOD]]),
    ],
)
def test_what_is_as_it_should_be_passes(check: Callable[..., None], given: list[Any]) -> None:
    check(*given)


@pytest.mark.parametrize(
    ("check", "given", "said", "code"),
    [
        (check_flags, [["--bf17", "3"]], "not a flag of the Trainer: --bf17 3", 2),
        (check_world, [1, ["2"]], "the world is smaller than asked for: 1 instead of 2", 1),
        (check_world, [4, ["1:2"] * 4], "the world is larger than asked for: 4 instead of 1 to 2", 1),
        (check_world, [2, ["2", "3"]], "the world is smaller than asked for: 2 instead of 3, as rank 1 was told", 1),
        (check_world, [2, ["2:", "3:"]], "smaller than asked for: 2 instead of 3 or more, as rank 1 was told", 1),
        (check_jobs, [[JOB, OTHER]], f"different jobs, rank 0: {JOB}, rank 1: {OTHER}; export", 1),
        (check_jobs, [[JOB, ""]], "rank 1: no name", 1),
        (check_used_backend, ["gloo", "ccl"], "the backend is gloo, planned was ccl", 1),
        (check_reports, [[GOOD, GOOD._replace(digest="b")]], "differ between ranks: rank 0: a, rank 1: b", 1),
        (check_reports, [[GOOD._replace(after=1.75)]], "from 3.5000 to 1.7500, it had to fall below 1.7500", 1),
        (check_reports, [[GOOD._replace(after=float("nan"))]], "the loss went from 3.5000 to nan", 1),
    ],
)
def test_a_job_that_did_not_train_as_one_fails(
    check: Callable[..., None], given: list[Any], said: str, code: int
) -> None:
    with pytest.raises(Failed) as caught:
        check(*given)
    assert said in str(caught.value) and caught.value.code == code


@pytest.mark.parametrize("backend", ["", "gloo"])
def test_every_default_is_a_flag_of_the_release(backend: str) -> None:
    for release, fields in HISTORY.items():
        words = list(default_flags("/tmp/x", backend, fields))
        names = [word.removeprefix("--") for word in words if word.startswith("--")]
        assert set(names) <= fields, release
        assert ("use_cpu" in names) != ("no_cuda" in names), release
        assert ("ddp_backend" in names) is bool(backend), release
        assert {"output_dir", "max_steps", "seed"} <= set(names), release
