"""torchrun typed as a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.launchers.table import ALONE, TORCHRUN
from entrypoint.launchers.world import World
from entrypoint.training import torchrun


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("--nproc-per-node 2 run_qa.py", 2),
        ("--nnodes 2 --nproc_per_node=4 run_qa.py", 4),
        ("--nproc-per-node auto run_qa.py", None),
        ("--standalone run_qa.py --nproc-per-node 2", None),
        ("--nproc-per-node", None),
        ("", None),
    ],
)
def test_the_number_of_processes_that_is_typed(line: str, count: int | None) -> None:
    assert torchrun.read_count(line.split()) == count


def test_a_node_of_a_rendezvous_gets_a_number_instead_of_auto() -> None:
    world = World(TORCHRUN, "PET_RDZV_ENDPOINT is set", (4, 4), local_size=2)

    assert [(each.name, each.value) for each in torchrun.settle(world)] == [("PET_NPROC_PER_NODE", "2")]
    assert torchrun.settle(World(ALONE, "", local_size=2)) == []


def test_what_stands_in_front_is_passed_over(tmp_path: Path) -> None:
    program = tmp_path / "torchrun"
    program.touch(0o755)

    assert torchrun.find({"PATH": f"{torchrun.FRONT}:{tmp_path}"}) == str(program)
    with pytest.raises(Refusal, match="pip install torch"):
        torchrun.find({"PATH": torchrun.FRONT})
