"""What `smoke` insists on, without a training."""

from __future__ import annotations

import pytest

from entrypoint.programs.smoke_checks import (
    Failed,
    Report,
    asked_size,
    check_flags,
    check_jobs,
    check_reports,
    check_used_backend,
    check_world,
    default_flags,
    known_flags,
    launched_size,
)
from entrypoint.world.ranks import read_job_name
from tests.support.trainer_fields import HISTORY


@pytest.mark.parametrize(
    ("environ", "size"),
    [
        ({}, 1),
        ({"WORLD_SIZE": "2"}, 2),
        ({"WORLD_SIZE": "1", "PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}, 4),
        ({"SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "0", "MASTER_ADDR": "node0", "SLURM_LOCALID": "0"}, 3),
        ({"MV2_COMM_WORLD_RANK": "0", "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_SIZE": "2"}, 2),
        ({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_SIZE": "2"}, 2),
        ({"FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2", "FLUX_JOB_NNODES": "1", "FLUX_TASK_LOCAL_ID": "0"}, 2),
        ({"WORLD_SIZE": "two"}, 1),
        ({"WORLD_SIZE": "²"}, 1),
    ],
)
def test_the_size_that_the_launcher_started_is_found(environ: dict[str, str], size: int) -> None:
    assert launched_size(environ) == size


@pytest.mark.parametrize(
    ("environ", "asked"),
    [({}, "1"), ({"WORLD_SIZE": "2"}, "2"), ({"WORLD_SIZE": "2", "MULTINODE_WORLD_SIZE": "1:4"}, "1:4")],
)
def test_the_size_that_was_asked_for(environ: dict[str, str], asked: str) -> None:
    assert asked_size(environ) == asked


def test_words_that_are_left_over() -> None:
    check_flags([])
    with pytest.raises(Failed, match=r"not a flag of the Trainer: --bf17 3\n  try: flags of TrainingArgum") as caught:
        check_flags(["--bf17", "3"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("size", "asked", "said"),
    [
        (2, ["2", "2"], None),
        (3, ["1:4"] * 3, None),
        (4, ["2:", "4"], None),
        (1, ["2"], "the world is smaller than asked for: 1 instead of 2"),
        (4, ["1:2"] * 4, "the world is larger than asked for: 4 instead of 1 to 2"),
        (2, ["2", "3"], "the world is smaller than asked for: 2 instead of 3, as rank 1 was told"),
        (2, ["2:", "3:"], "the world is smaller than asked for: 2 instead of 3 or more, as rank 1 was told"),
    ],
)
def test_a_world_of_another_size_than_asked_for_fails(size: int, asked: list[str], said: str | None) -> None:
    if said is None:
        check_world(size, asked)
        return
    with pytest.raises(Failed) as caught:
        check_world(size, asked)
    assert (str(caught.value), caught.value.code) == (said, 1)


@pytest.mark.parametrize(
    ("actual", "planned", "good"),
    [("gloo", "gloo", True), ("none", "ccl", True), ("gloo", "", True), ("gloo", "ccl", False)],
)
def test_another_backend_than_the_planned_one_fails(actual: str, planned: str, good: bool) -> None:
    if good:
        check_used_backend(actual, planned)
        return
    with pytest.raises(Failed, match="the backend is gloo, planned was ccl"):
        check_used_backend(actual, planned)


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([Report("a", 3.5, 0.1)] * 2, None),
        ([Report("a", 3.5, 0.1), Report("b", 3.5, 0.1)], "the weights differ between ranks: rank 0: a, rank 1: b"),
        ([Report("a", 3.5, 1.75)], "the loss went from 3.5000 to 1.7500, it had to fall below 1.7500"),
        ([Report("a", 3.5, float("nan"))], "the loss went from 3.5000 to nan"),
    ],
)
def test_ranks_with_other_weights_or_without_a_falling_loss_fail(reports: list[Report], said: str | None) -> None:
    if said is None:
        check_reports(reports)
        return
    with pytest.raises(Failed, match=said):
        check_reports(reports)


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({}, ""),
        ({"MULTINODE_JOB": "SLURM_JOB_ID=7.0"}, "SLURM_JOB_ID=7.0"),
        ({"MULTINODE_JOB": "qa", "TORCHELASTIC_RUN_ID": "qa"}, "qa qa"),
    ],
)
def test_a_rank_knows_its_job(environ: dict[str, str], job: str) -> None:
    assert read_job_name(environ) == job


def test_ranks_of_two_jobs_are_no_world() -> None:
    check_jobs(["SLURM_JOB_ID=7.0", "SLURM_JOB_ID=7.0"])
    check_jobs(["", ""])
    with pytest.raises(Failed, match="different jobs, rank 0: SLURM_JOB_ID=7, rank 1: SLURM_JOB_ID=8; export"):
        check_jobs(["SLURM_JOB_ID=7", "SLURM_JOB_ID=8"])
    with pytest.raises(Failed, match="rank 1: no name"):
        check_jobs(["SLURM_JOB_ID=7.0", ""])


@pytest.mark.parametrize("backend", ["", "gloo"])
def test_every_default_is_a_flag_of_the_release(backend: str) -> None:
    for release, fields in HISTORY.items():
        words = list(default_flags("/tmp/x", backend, fields))
        names = [word.removeprefix("--") for word in words if word.startswith("--")]
        assert set(names) <= fields, release
        assert ("use_cpu" in names) != ("no_cuda" in names), release
        assert ("ddp_backend" in names) is bool(backend), release
        assert {"output_dir", "max_steps", "seed"} <= set(names), release


def test_the_oldest_releases_have_another_flag_for_the_backend() -> None:
    assert list(default_flags("/tmp/x", "ccl", {"xpu_backend"}))[-2:] == ["--xpu_backend", "ccl"]


@pytest.mark.parametrize(
    ("accelerate", "taken"),
    [("1.0.1", False), ("0.34.2", False), ("1.1.0", True), ("1.15.0", True), ("2.0.0rc1", True)],
)
def test_a_data_seed_needs_an_accelerate_that_takes_it(accelerate: str, taken: bool) -> None:
    """What transformers 4.46.0 says to accelerate 1.0.1: NotImplementedError: data_seed requires Accelerate 1.1.0."""
    known = known_flags(("seed", "data_seed"), accelerate)

    assert ("data_seed" in known) is taken
    assert ("--data_seed" in default_flags("/out", "", known)) is taken
    assert "--seed" in default_flags("/out", "", known)
