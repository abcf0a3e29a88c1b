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


def test_torchrun_and_mpi_as_the_readme_says(image: str, names: str, tmp_path: Path) -> None:
    shown = "\n".join([*block("README.md"), *block("docs/mpi.md")[1:]])
    script = NAMES.sub(rf"\1{names}", shown).replace("IMAGE", image)

    done = call(["bash", "-euc", f"cd {tmp_path}\n{script}"])

    assert done.code == 0
    assert re.findall(r"smoke: passed: world_size=(\d) backend=(\w+)", done.out) == [("2", "gloo")] * 2
    assert len(re.findall(r" all_reduce_seconds=(?!0\.00)\d+\.\d\d ", done.out)) == 2
