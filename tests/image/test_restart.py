"""A training that dies goes on from its last checkpoint, and another one does not take its directory."""

from __future__ import annotations

import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import ROOT, Done, call, run

SCRIPTS = ("--volume", f"{ROOT}/tests/data/offline:/workspace/transformers:ro")
CLM = ("clm", "--max_steps", "8", "--save_steps", "2", "--report_to", "none")
DIES = ("--env", "DIE_AT=5", "--env", "PET_MAX_RESTARTS=1")


@pytest.fixture
def results(module_path: Path) -> Iterator[Path]:
    """Lend a volume for results that the user of the image may write."""
    place = module_path / uuid.uuid4().hex
    place.mkdir()
    place.chmod(0o777)
    yield place
    call(["rm", "-rf", str(place)])


def train(image: str, results: Path, *words: str, options: tuple[str, ...] = ()) -> Done:
    return run(image, *words, options=(*SCRIPTS, "--volume", f"{results}:/workspace/output", *options))


@pytest.mark.slow
@pytest.mark.parametrize("release", ["image", "older_image"])
def test_a_container_that_is_started_again_goes_on(request: pytest.FixtureRequest, results: Path, release: str) -> None:
    image = str(request.getfixturevalue(release))
    done = train(image, results, *CLM, options=DIES)
    assert done.code == 9 and "rank 0 begins at step 0" in done.out
    half = results / "clm/checkpoint-6"  # as it is when a node dies while it writes
    half.mkdir()
    half.chmod(0o777)

    done = train(image, results, *CLM)

    assert done.code == 0
    assert "multinode: goes on from /workspace/output/clm/checkpoint-4\n" in done.err
    assert "rank 0 begins at step 4" in done.out and "rank 0 ends at step 8" in done.out


@pytest.mark.slow
def test_ranks_that_torchrun_starts_again_go_on(image: str, results: Path) -> None:
    done = train(image, results, "--nproc", "2", *CLM, options=DIES)

    assert done.code == 0
    for rank in (0, 1):
        # Two ranks may write into one line.
        steps = re.findall(rf"rank {rank} (begins|ends) at step (\d)", done.out)
        assert steps == [("begins", "0"), ("begins", "4"), ("ends", "8")]
    assert done.err.count("multinode: goes on from /workspace/output/clm/checkpoint-4\n") == 1


def test_the_checkpoints_of_others_are_not_touched(image: str, results: Path) -> None:
    (results / "clm/checkpoint-500").mkdir(parents=True)

    done = train(image, results, *CLM)

    assert done.code == 2
    assert "holds another run: /workspace/output/clm with checkpoint-500" in done.err
    assert "--overwrite_output_dir" in done.err
    assert [each.name for each in (results / "clm").iterdir()] == ["checkpoint-500"]


@pytest.mark.slow
def test_two_jobs_at_once_do_not_share_a_directory(image: str, results: Path) -> None:
    name = f"multinode-test-{uuid.uuid4().hex[:12]}"
    mounted = (*SCRIPTS, "--volume", f"{results}:/workspace/output")
    first = ("clm", "--max_steps", "1000000", "--save_strategy", "no", "--report_to", "none")
    start = ["docker", "run", "--detach", "--rm", "--name", name, "--network", "none", *mounted, image, *first]
    assert call(start).code == 0
    try:
        end = time.monotonic() + 60
        while not (results / "clm/_multinode/lease.json").exists():
            assert time.monotonic() < end, "no lease after a minute"
            time.sleep(0.2)

        done = train(image, results, *first)

        assert done.code == 2
        assert "another job writes to the directory for results" in done.err
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, timeout=60, check=False)
