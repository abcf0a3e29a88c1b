"""The place of a rank, and what its groups have exchanged; torch is made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multinode_image.hooks.job import place
from multinode_image.hooks.job.place import Job, count_exchanges, read_job
from multinode_image.settings import SIZE
from tests.support.torch_stand_ins import PID, PLACE, RANK, rpc, torch


@pytest.fixture(autouse=True)
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Show no process."""
    monkeypatch.setattr(place, "PROC", tmp_path)
    return tmp_path


def test_what_a_script_sets_is_no_place_of_a_rank(proc: Path) -> None:
    (proc / PID).mkdir()
    (proc / PID / "environ").write_text("\0".join(f"{name}={value}" for name, value in RANK.items()) + "\0")

    job = read_job({**RANK, "MASTER_ADDR": "localhost", "MASTER_PORT": "12355", "RANK": "0"})

    assert job == Job(1, 2, "pod0", 29500, "0")


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        (RANK, Job(1, 2, "pod0", 29500, "0")),
        ({**RANK, "TORCHELASTIC_RESTART_COUNT": "3"}, Job(1, 2, "pod0", 29500, "3")),
        (PLACE, None),  # mpirun, srun
        ({**RANK, "TORCHELASTIC_USE_AGENT_STORE": "False"}, None),
        ({**RANK, "MASTER_PORT": "many"}, None),
        ({SIZE: "2", "MULTINODE_TRAINING": "1"}, None),  # no rank
        ({**RANK, "MULTINODE_TRAINING": "none"}, Job(1, 2, "pod0", 29500, "0")),
    ],
)
def test_the_place_of_a_rank_is_what_its_agent_told(environ: dict[str, str], job: Job | None) -> None:
    assert read_job(environ) == job


@pytest.mark.parametrize(
    ("modules", "count"),
    [({}, 0), (torch(0), 0), (torch(2, 7), 7), (torch(2, None), None), (rpc(True), None), (rpc(False), 0)],
)
def test_groups_are_asked_what_they_have_exchanged(modules: dict[str, Any], count: int | None) -> None:
    assert count_exchanges(modules) == count
