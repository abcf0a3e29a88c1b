"""The script of a task; conditions on what is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.tasks.arguments import list_defaults
from entrypoint.tasks.task import absent, any_of, both, given, given_other, place_script, switched_on
from entrypoint.tasks.tasks import TASKS

if TYPE_CHECKING:
    from entrypoint.tasks.task import Condition

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
AGAIN = "python build.py --torch 2.13.0 --transformers 5.23.0 --backend gloo"
STACKS = (NEW, NEW._replace(transformers="4.31.0"))


@pytest.mark.parametrize(
    ("condition", "typed", "met"),
    [
        (given("do_eval"), {}, False),
        (given("do_eval"), {"do_eval": ""}, True),
        (given("do_eval"), {"do_eval": "no"}, True),
        (absent("do_eval"), {}, True),
        (absent("do_eval"), {"do_eval": ""}, False),
        (switched_on("do_eval"), {}, False),
        (switched_on("do_eval"), {"do_eval": ""}, True),
        (switched_on("do_eval"), {"do_eval": "True"}, True),
        (switched_on("do_eval"), {"do_eval": "False"}, False),
        (switched_on("do_eval"), {"do_eval": "NO"}, False),
        (given_other("model_name_or_path", than="t5"), {}, False),
        (given_other("model_name_or_path", than="t5"), {"model_name_or_path": "google-t5/T5-small"}, False),
        (given_other("model_name_or_path", than="t5"), {"model_name_or_path": "/t5/"}, False),
        (given_other("model_name_or_path", than="t5"), {"model_name_or_path": "t5/bart"}, True),
        (given_other("model_name_or_path", than="t5"), {"model_name_or_path": ""}, True),
        (both(given("do_eval"), switched_on("do_train")), {"do_eval": "", "do_train": ""}, True),
        (both(given("do_eval"), switched_on("do_train")), {"do_eval": "", "do_train": "no"}, False),
        (both(given("do_eval"), switched_on("do_train")), {"do_train": ""}, False),
    ],
)
def test_a_condition_is_met_by_a_typed_flag(condition: Condition, typed: dict[str, str], *, met: bool) -> None:
    assert condition(lambda name: [typed[name]] if name in typed else []) is met


def test_one_of_several_values_is_enough() -> None:
    """A flag and a beginning of its name may both be given."""
    assert switched_on("do_eval")(lambda _: ["no", "yes"])
    assert given_other("source_lang", than="en")(lambda _: ["en", "de"])


def test_any_of_several_flags_meets_a_condition() -> None:
    conditions = any_of("train_file", "train_dir")
    assert [condition({"train_file": ["t.csv"], "train_dir": []}.__getitem__) for condition in conditions] == [
        True,
        False,
    ]


@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if task.unless])
def test_every_row_of_a_task_is_about_its_defaults(task: str) -> None:
    defaults = {flag.name for stack in STACKS for flag in list_defaults(task, TASKS[task], stack, many=False)}
    assert TASKS[task].unless.keys() <= defaults


def test_a_task_has_its_script_in_the_examples() -> None:
    script = place_script("qa", TASKS["qa"], NEW)
    assert script == "/workspace/transformers/examples/pytorch/question-answering/run_qa.py"


@pytest.mark.parametrize(
    ("name", "stack", "fact", "remedy"),
    [
        ("qa", NEW._replace(examples=None), "without the examples", f"{AGAIN} --examples"),
        ("fim", NEW._replace(transformers="4.38.2"), "do not have the task", "transformers 4.39 or later"),
    ],
)
def test_a_task_without_its_script_is_refused(name: str, stack: Stack, fact: str, remedy: str) -> None:
    with pytest.raises(Refusal, match=fact) as caught:
        place_script(name, TASKS[name], stack)
    assert remedy in caught.value.remedy and caught.value.code == 2
