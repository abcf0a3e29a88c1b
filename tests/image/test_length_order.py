"""Examples put together by length: each once an epoch on ranks together, and in one order for whoever goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.harness import OFFLINE, Done, run

SCRIPT = Path(__file__).with_name("length_order.py")
COUNT, EPOCHS, BATCH = 48, 3, 4  # as there
STEP = 2  # of the second epoch, after which another start goes on


def read(done: Done) -> list[list[int]]:
    """Return the examples of each epoch, of all ranks."""
    assert done.code == 0
    lines = [json.loads(line) for line in done.out.splitlines() if line.startswith("[")]
    return [[index for rank in lines[-1] for index in rank.get(str(epoch), [])] for epoch in range(EPOCHS)]


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_each_example_comes_once_an_epoch_also_where_a_start_goes_on(image: str, tmp_path: Path, ranks: int) -> None:
    tmp_path.chmod(0o777)
    options = [*OFFLINE, f"--volume={SCRIPT}:/workspace/order.py:ro", f"--volume={tmp_path}:/kept"]
    words = ("--nproc", str(ranks), "/workspace/order.py", "/kept/run")
    steps = COUNT // BATCH // ranks

    whole = read(run(image, *words, options=options))
    again = read(run(image, *words, f"/kept/run/checkpoint-{steps + STEP}", options=options))

    assert [sorted(epoch) for epoch in whole] == [list(range(COUNT))] * EPOCHS
    assert whole[0] != whole[1] != whole[2]
    done = STEP * BATCH  # of each rank
    share = COUNT // ranks
    left = [index for rank in range(ranks) for index in whole[1][rank * share + done : (rank + 1) * share]]
    assert again[1:] == [left, whole[2]]
