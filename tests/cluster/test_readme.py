"""The commands of the README and of its page on mpirun, typed into a shell as they are printed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import page
from tests.support.harness import call

NAMES = re.compile(r"\b(training|pod0|pod1|node0|node1)\b")


@pytest.fixture
def names() -> Iterator[str]:
    """Lend an ending for the names of containers and of the network, and remove what has such a name."""
    ending = f"-readme-{os.getpid()}"
    yield ending
    call(["docker", "rm", "--force", *(f"{name}{ending}" for name in ("pod0", "pod1", "node0", "node1"))])
    call(["docker", "network", "rm", f"training{ending}"])


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
def test_two_containers_train_as_the_page_says(image: str, names: str, tmp_path: Path, path: str) -> None:
    script = NAMES.sub(rf"\1{names}", "\n".join(block(path))).replace("IMAGE", image)

    done = call(["bash", "-euc", f"cd {tmp_path}\n{script}"])

    assert done.code == 0
    assert re.findall(r"smoke: passed: world_size=(\d) backend=(\w+)", done.out) == [("2", "gloo")]
    assert len(re.findall(r" all_reduce_seconds=(?!0\.00)\d+\.\d\d ", done.out)) == 1
