"""Requests -> plans, and every way a request can be wrong."""

from __future__ import annotations

import datetime
import re

import pytest

from images import catalog, plan
from images.errors import UserFault

TABLE = catalog.load()


def test_no_arguments_plan_the_default_pair() -> None:
    made = plan.resolve(plan.Request(), TABLE)

    assert made.torch.version == TABLE.default_torch
    assert made.transformers.version == TABLE.default_transformers
    assert made.tag == f"multinode:torch{TABLE.default_torch}-transformers{TABLE.default_transformers}"
    assert made.requirements[0] == f"torch=={TABLE.default_torch}"
    assert made.examples and made.examples.endswith(f"v{TABLE.default_transformers}.tar.gz")


def test_days_follow_torch_for_libraries_and_transformers_for_its_family() -> None:
    made = plan.resolve(plan.Request(transformers="5.23.0"), TABLE)

    assert (made.as_of, made.family_as_of) == (datetime.date(2026, 7, 8), datetime.date(2026, 11, 13))


def test_an_older_transformers_does_not_pull_the_family_behind_torch() -> None:
    made = plan.resolve(plan.Request(transformers="4.57.6"), TABLE)

    assert made.family_as_of == made.as_of == datetime.date(2026, 7, 8)


@pytest.mark.parametrize(
    ("request_", "value", "remedy"),
    [
        (plan.Request(torch="2.12.9"), "2.12.9", "--torch 2.13.0"),
        (plan.Request(torch="latest"), "'latest'", "--torch 2.13.0"),
        (plan.Request(transformers="4.57.9"), "4.57.9", "--transformers 4.57.6"),
        (plan.Request(transformers="6.0.0"), "6.0.0", "--transformers 5.23.0"),
        (plan.Request(transformers=""), "''", "--transformers 5.23.0"),
        (plan.Request(tasks=("question-answer",)), "'question-answer'", "--tasks question-answering"),
        (plan.Request(tasks=("xyz",)), "'xyz'", "--tasks with one or more of"),
    ],
)
def test_a_wrong_request_is_told_what_to_type(request_: plan.Request, value: str, remedy: str) -> None:
    with pytest.raises(UserFault, match=re.escape(value)) as caught:
        plan.resolve(request_, TABLE)

    assert caught.value.remedy.startswith(remedy)
    assert caught.value.exit_code == 2


def test_a_yanked_release_is_planned_with_its_reason() -> None:
    made = plan.resolve(plan.Request(transformers="5.10.0"), TABLE)

    assert made.notes == (
        "transformers 5.10.0 was yanked (pushed from a week old main branch); the nearest good one is 5.10.1",
    )


def test_tasks_choose_the_requirements() -> None:
    made = plan.resolve(plan.Request(tasks=("question-answering",)), TABLE)

    assert "evaluate" in made.requirements
    assert not any(requirement.startswith("seqeval") for requirement in made.requirements)


def test_examples_none() -> None:
    assert plan.resolve(plan.Request(examples="none"), TABLE).examples is None
