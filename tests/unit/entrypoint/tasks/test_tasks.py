"""The table of tasks."""

from __future__ import annotations

import pytest

from entrypoint.needs.data import SCRIPTS
from entrypoint.needs.packages import NEEDS
from entrypoint.tasks.flags import split_flags
from entrypoint.tasks.task import ACCELERATE, TRAINER, Task
from entrypoint.tasks.tasks import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_a_row_is_sound(name: str) -> None:
    task = TASKS[name]
    names = [flag.name for flag in split_flags(task.defaults.split())]
    assert len(names) == len(set(names)) and "" not in names
    assert task.directory in NEEDS
    assert name.endswith("-no-trainer") == ("_no_trainer" in task.script) == (task.kind == ACCELERATE)


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.kind != TRAINER])
def test_a_script_without_the_trainer_gets_none_of_its_flags(name: str) -> None:
    assert not {"--do_train", "--do_eval", "--eval_strategy"} & set(TASKS[name].defaults.split())


@pytest.mark.parametrize("name", TASKS)
def test_a_data_set_has_its_owner(name: str) -> None:
    """Newer releases of datasets load no other; a script among the defaults is refused before."""
    data = [flag.values[0] for flag in split_flags(TASKS[name].defaults.split()) if flag.name == "dataset_name"]
    assert all("/" in each or each in SCRIPTS for each in data)


def test_no_script_has_two_names() -> None:
    assert len({task.script for task in TASKS.values()}) == len(TASKS)


def test_generation_does_not_train() -> None:
    assert not TASKS["generation"].trains
    assert Task("a/run_b.py", "", "").trains
