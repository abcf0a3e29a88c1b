"""What doctor prints of its checks, and for which command it decides."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from entrypoint.decide import Plan
from entrypoint.doctor.report import decide_training, doctor, examine, rows_as_json, rows_as_text
from entrypoint.doctor.view import OK, WARNING, WRONG
from entrypoint.errors import Refusal
from entrypoint.tasks.job import DOCTOR, Job
from entrypoint.world.model import World
from tests.support.doctor import DECISION, GB, HEALTHY, LIMITS


def test_a_healthy_container_has_no_remedy() -> None:
    rows = examine(HEALTHY)
    assert {row.state for row in rows} == {OK}
    assert json.loads(rows_as_json(rows))["healthy"] is True
    assert "try:" not in rows_as_text(rows)


@pytest.mark.parametrize(
    ("change", "name", "state"),
    [
        ({"refusal": Refusal("alone", "RANK=1", "unset RANK")}, "launcher", WRONG),
        ({"limits": LIMITS._replace(memory=GB)}, "memory", WARNING),
    ],
)
def test_a_fault_is_in_both_forms_with_its_remedy(change: dict[str, object], name: str, state: str) -> None:
    rows = examine(HEALTHY._replace(**change))  # type: ignore[arg-type]
    (found,) = (row for row in rows if row.state != OK)
    assert (found.name, found.state) == (name, state)
    assert json.loads(rows_as_json(rows))["healthy"] is (state != WRONG)
    assert f"try: {found.remedy}" in rows_as_text(rows)


def test_other_words_are_refused() -> None:
    def decide(job: Job) -> Plan:
        raise AssertionError(job)

    with pytest.raises(Refusal, match="no such option"):
        doctor(Job(DOCTOR, DOCTOR, ["--jsno"]), decide, HEALTHY.stack, "/root")


@pytest.mark.parametrize(("launcher", "reported"), [("alone", True), ("mpijob-worker", False)])
def test_a_refused_training_is_reported_where_one_was_meant(launcher: str, reported: bool) -> None:
    def decide(job: Job) -> Plan:
        if job.trains:
            raise Refusal("no", "1", "unset RANK")
        return replace(DECISION, world=World(launcher, ""))

    decision, refusal = decide_training(Job(DOCTOR, DOCTOR, []), decide)
    assert decision.world.launcher == launcher
    assert (refusal is not None) is reported
