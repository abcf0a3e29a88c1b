"""Examples put together by length: each once an epoch on ranks together, and in one order for whoever goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.image.forked import OPTIONS
from tests.support.harness import run

COUNT, EPOCHS, BATCH = 48, 3, 4  # as there
STEP = 2  # of the second epoch, after which another start goes on


def read(line: str) -> list[list[int]]:
    """Return the examples of each epoch, of all ranks."""
    everybody = json.loads(line)
    return [[index for rank in everybody for index in rank.get(str(epoch), [])] for epoch in range(EPOCHS)]


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_each_example_comes_once_an_epoch_also_where_a_start_goes_on(image: str, tmp_path: Path, ranks: int) -> None:
    tmp_path.chmod(0o777)
    steps = COUNT // BATCH // ranks
    words = ("/kept/run", "then", "/kept/run", f"/kept/run/checkpoint-{steps + STEP}")
    options = (*OPTIONS, f"--volume={tmp_path}:/kept")

    done = run(image, "python3", "/ranks/forked.py", str(ranks), "length_order", *words, options=options)

    assert done.code == 0
    whole, again = (read(line) for line in done.out.splitlines() if line.startswith("["))
    assert [sorted(epoch) for epoch in whole] == [list(range(COUNT))] * EPOCHS
    assert whole[0] != whole[1] != whole[2]
    had = STEP * BATCH  # of each rank
    share = COUNT // ranks
    left = [index for rank in range(ranks) for index in whole[1][rank * share + had : (rank + 1) * share]]
    assert again[1:] == [left, whole[2]]
