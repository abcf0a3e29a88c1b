"""The commands of the README and of its page on mpirun, typed into a shell as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.containers import own_names
from tests.support.documents import page
from tests.support.harness import call


def block(path: str) -> list[str]:
    """Return the block of a page that begins with a network of its own."""
    return next(lines for _, lines in page(path).blocks if lines[0].startswith("docker network create"))


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        pytest.param("docs/mpi.md", marks=pytest.mark.slow),  # ranks of launch meet in test_two_nodes.py
    ],
)
def test_two_containers_train_as_the_page_says(image: str, tmp_path: Path, path: str) -> None:
    with own_names("training", "pod0", "pod1", "node0", "node1") as name:
        done = call(["bash", "-euc", f"cd {tmp_path}\n" + name("\n".join(block(path))).replace("IMAGE", image)])

    assert done.code == 0
    assert re.findall(r"smoke: passed: world_size=(\d) backend=(\w+)", done.out) == [("2", "gloo")]
    assert len(re.findall(r" all_reduce_seconds=(?!0\.00)\d+\.\d\d ", done.out)) == 1
