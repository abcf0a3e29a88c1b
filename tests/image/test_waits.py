"""Who waits for whom, in a container of two ranks: their stacks when somebody asks, and the line of rank 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.containers import Container, detached

# Rank 0 waits in a collective, and rank 1 prepares something in another file.
TRAIN = """
import torch.distributed as dist
import prepare
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    prepare.prepare()
print("waits", flush=True)
dist.barrier()
"""
PREPARE = """
import time
def prepare():
    time.sleep(200)
"""


@pytest.fixture(scope="module")
def waiting(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    place: Path = tmp_path_factory.mktemp("waits")
    place.chmod(0o755)
    (place / "train.py").write_text(TRAIN)
    (place / "prepare.py").write_text(PREPARE)
    with detached("--volume", f"{place}:/script:ro", image, "--nproc", "2", "/script/train.py") as container:
        assert container.said("waits")
        yield container


def test_stacks_of_all_ranks_are_printed_and_none_ends(waiting: Container) -> None:
    for _ in range(2):
        stacks = waiting.shell("multinode stacks")
        assert stacks.code == 0, stacks.text
        assert "rank 0 is at train.py:8 (barrier)" in stacks.out
        assert 'File "/script/prepare.py", line 4, in prepare' in stacks.out

    process = re.search(r"rank 1 is at prepare.py:4, process (\d+)\n", stacks.out)
    assert process
    stacks = waiting.shell(f"kill -STOP {process[1]}; multinode stacks; code=$?; kill -CONT {process[1]}; exit $code")
    assert stacks.code == 1 and f"process {process[1]} has not answered for 5 s" in stacks.out


@pytest.mark.slow
def test_rank_0_says_who_waits_for_whom(waiting: Container) -> None:
    line = "multinode: rank 0 has waited 1 min at train.py:8 (barrier); rank 1 is at prepare.py:4"

    assert waiting.said(line, 120)
    assert waiting.log.count("has waited") == 1
