"""What ranks get of gradients in the image: by every choice what plain DDP gives them, within its error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.harness import Done, run

SCRIPT = Path(__file__).with_name("exchange_ranks.py")
OPTIONS = (f"--volume={SCRIPT}:/workspace/ranks.py:ro", "--env=OMP_NUM_THREADS=1", "--env=MULTINODE_BF16=emulate")


def train(image: str, ranks: int, what: str, *options: str, seconds: float = 420) -> Done:
    """Run the script as ranks of one node, started by the entrypoint."""
    words = ("--nproc", str(ranks), "/workspace/ranks.py", *what.split())
    return run(image, *words, options=(*OPTIONS, *options), seconds=seconds)


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_gradients_are_those_of_plain_ddp(image: str, ranks: int) -> None:
    done = train(image, ranks, "all")

    assert done.code == 0
    assert re.search(r"^\d\d cases are well$", done.out, re.MULTILINE)
    assert re.search(r"^\d generated models are well$", done.out, re.MULTILINE)
    for kind in ("float32", "bf16", "int8"):
        assert f"multinode: gradients are sent as {kind}" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_any_model_has_the_gradients_of_plain_ddp(image: str, ranks: int) -> None:
    done = train(image, ranks, "generated 200")

    assert done.code == 0 and "200 generated models are well\n" in done.out


@pytest.mark.parametrize(
    ("ranks", "choice"),
    [(2, ""), *(pytest.param(3, choice, marks=pytest.mark.slow) for choice in ("", "int8"))],
)
def test_a_lost_rank_ends_the_others(image: str, ranks: int, choice: str) -> None:
    done = train(image, ranks, "lose", "--env", f"MULTINODE_GRADIENTS={choice}", seconds=120)

    assert done.code == 1
    assert done.out.startswith("told of the lost rank: ")
