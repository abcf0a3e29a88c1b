"""Steps of Slurm, and its lists of nodes."""

from __future__ import annotations

import pytest

from entrypoint.launchers.slurm import first_host
from entrypoint.launchers.table import detect, read_world
from tests.support.launchers import left_by


def test_slurm_names_the_first_node_as_master() -> None:
    assert read_world(left_by("slurm-step"), detect(left_by("slurm-step")), None).master == "n03"


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("node1", "node1"), ("a,b", "a"), ("node[003-007,9],x", "node003"), ("login1,n[1-2]", "login1"), ("", "")],
)
def test_first_host(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host
