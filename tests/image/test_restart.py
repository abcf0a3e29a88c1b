"""A training that dies goes on from its last checkpoint, and another one does not take its directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.containers import detached
from tests.support.faults import Broken
from tests.support.harness import OFFLINE, TRAIN_SCRIPT, Done, run, wait_for

SCRIPTS = (*OFFLINE, *TRAIN_SCRIPT)
STEPS = ("--max_steps", "8", "--save_steps", "2")
CLM = ("clm", *STEPS, "--report_to", "none")
SCRIPT = ("train.py", *STEPS, "--output_dir", "/workspace/output/clm")
DIES = ("--env", "DIE_AT=5", "--env", "PET_MAX_RESTARTS=1")


def train(image: str, volume: Path, *words: str, options: tuple[str, ...] = ()) -> Done:
    return run(image, *words, options=(*SCRIPTS, "--volume", f"{volume}:/workspace/output", *options))


@pytest.mark.slow
@pytest.mark.parametrize(("release", "command"), [("image", CLM), ("older_image", CLM), ("older_image", SCRIPT)])
def test_a_container_that_is_started_again_goes_on(
    request: pytest.FixtureRequest, volume: Path, release: str, command: tuple[str, ...], broken: Broken
) -> None:
    image = str(request.getfixturevalue(release))
    done = train(image, volume, "--nproc", "1", *command, options=DIES)
    assert done.code == 9 and "rank 0 begins at step 0" in done.out
    half = volume / "clm/checkpoint-6"  # as it is when a node dies while it writes
    half.mkdir()
    owner = (volume / "clm/checkpoint-4").stat()
    os.chown(half, owner.st_uid, owner.st_gid)  # whose checkpoints they are is looked at first

    with broken.happens():
        done = train(image, volume, "--nproc", "1", *command)

    broken.ended(done)
    assert "rank 0 begins at step 4" in done.out and "rank 0 ends at step 8" in done.out
    assert "8 of 8, started again at step 4" in train(image, volume, "report").out


@pytest.mark.slow
@pytest.mark.parametrize("command", [CLM, SCRIPT], ids=["task", "script"])
def test_ranks_that_torchrun_starts_again_go_on(image: str, volume: Path, command: tuple[str, ...]) -> None:
    done = train(image, volume, "--nproc", "2", *command, options=DIES)

    assert done.code == 0
    for rank in (0, 1):
        # Two ranks may write into one line.
        steps = re.findall(rf"rank {rank} (begins|ends) at step (\d)", done.out)
        assert steps == [("begins", "0"), ("begins", "4"), ("ends", "8")]
    assert done.err.count("multinode: goes on from /workspace/output/clm/checkpoint-4\n") == 1


@pytest.mark.slow
def test_a_run_begun_anew_goes_on_from_its_own_checkpoints_alone(image: str, volume: Path) -> None:
    """They have the losses, and here even the weights, of those that were there before it."""
    assert train(image, volume, "--nproc", "1", *SCRIPT).code == 0
    weights = volume / "clm/checkpoint-8/model.safetensors"
    expected = weights.read_bytes()

    done = train(image, volume, "--nproc", "1", *SCRIPT, options=("--env", "MULTINODE_RESUME=no", *DIES))
    assert done.code == 9 and "rank 0 begins at step 0" in done.out
    (volume / "clm/checkpoint-99999999").symlink_to("checkpoint-8")
    done = train(image, volume, "--nproc", "1", *SCRIPT)

    assert done.code == 0 and "rank 0 begins at step 4" in done.out
    assert weights.read_bytes() == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [(CLM, "model.safetensors of uid 123456"), (SCRIPT, "checkpoint-8 of uid 123456")],
    ids=["of a task, which its record knows", "of a script"],
)
def test_another_user_is_told_whose_a_checkpoint_is(
    image: str, volume: Path, command: tuple[str, ...], said: str
) -> None:
    (volume / "clm").mkdir()
    (volume / "clm").chmod(0o777)
    assert train(image, volume, "--nproc", "1", *command, options=("--user", "123456:0")).code == 0

    done = train(image, volume, "--nproc", "1", *command)

    assert done.code == 2 and said in done.err and "--user 123456:0" in done.err


def test_the_checkpoints_of_others_are_not_touched(image: str, volume: Path) -> None:
    (volume / "clm/checkpoint-500").mkdir(parents=True)
    (volume / "clm").chmod(0o777)

    done = train(image, volume, *CLM)

    assert done.code == 2
    assert "holds another run: /workspace/output/clm with checkpoint-500" in done.err
    assert "--overwrite_output_dir" in done.err
    assert [path.name for path in (volume / "clm").iterdir()] == ["checkpoint-500"]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", ["1", "2"])
def test_two_jobs_at_once_do_not_share_a_directory(image: str, volume: Path, ranks: str) -> None:
    mounted = (*SCRIPTS, "--volume", f"{volume}:/workspace/output")
    endless = ("--nproc", ranks, "clm", "--max_steps", "1000000", "--save_strategy", "no", "--report_to", "none")
    with detached(*mounted, image, *endless):
        assert wait_for((volume / "clm/_multinode/run.json").exists), "no record after a minute"

        done = train(image, volume, *endless)

    assert done.code == 138
    assert "another job writes to the directory for results" in done.err
