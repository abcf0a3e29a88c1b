"""What is proved of the trainings of two ranks in the image: one model, two, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.harness import run

SCRIPT = Path(__file__).with_name("weight_ranks.py")
OPTIONS = (f"--volume={SCRIPT}:/workspace/ranks.py:ro", "--env=OMP_NUM_THREADS=1", "--env=MULTINODE_TRAINING=1")


@pytest.mark.parametrize("kind", ["image", pytest.param("ccl_image", marks=pytest.mark.slow)])  # torch 2.4
def test_ranks_train_one_model_or_end_with_an_error(kind: str, request: pytest.FixtureRequest) -> None:
    done = run(request.getfixturevalue(kind), "python3", "/workspace/ranks.py", options=OPTIONS, seconds=300)

    assert "cases are well; not: none" in done.out and done.code == 0
