"""Every form of every launcher in tests/data/launchers.toml, and the world that it is taken for."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.world import alone
from entrypoint.world.table import detect
from tests.support.launchers import Case, describe, read_cases

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
