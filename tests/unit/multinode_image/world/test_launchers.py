"""Every form of every launcher in tests/data/launchers.toml, and the world that it is taken for."""

from __future__ import annotations

import pytest

from multinode_image.errors import Refusal
from multinode_image.world import alone
from multinode_image.world.table import LAUNCHERS, SCHEDULERS, detect, find_launcher
from tests.support.launchers import Case, describe, left_by, names, read_cases, read_machines

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.launcher}: {case.form} -> {case.world or 'refused'}")
def test_each_form_of_a_launcher_is_a_world_or_a_refusal(case: Case) -> None:
    try:
        world = detect(case.environ, case.nproc)
        alone.check(case.environ, world)
    except Refusal as refusal:
        assert (refusal.fact, refusal.code) == (case.refused, 2)
        return
    assert describe(world) == case.world


def test_each_row_of_the_table_is_tried() -> None:
    tried = [find_launcher(environ) for environ in (*(case.environ for case in CASES), *map(left_by, names()))]

    missing = [launcher.why for launcher in LAUNCHERS if launcher not in tried]
    assert not missing, "add a case to tests/data/launchers.toml for each of these rows of world/table.py"


def test_each_scheduler_is_tried() -> None:
    variables = {name for case in CASES for name in case.environ}
    variables |= {name for rows in read_machines().values() for row in rows for name in row["variables"]}

    missing = [
        scheduler.prefix for scheduler in SCHEDULERS if not any(name.startswith(scheduler.prefix) for name in variables)
    ]
    assert not missing, "add a case to tests/data/launchers.toml or machines.toml for each of these of world/table.py"
