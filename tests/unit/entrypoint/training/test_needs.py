"""Whether a task can run: its script, and the packages it imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from entrypoint.container.image import Stack
from entrypoint.errors import Refusal
from entrypoint.training.needs import BUILT, check_needs, find_script, list_packages, list_tasks
from entrypoint.training.tasks import NEEDS, TASKS
from images.plan import catalog

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")


def test_scripts() -> None:
    script = find_script("qa", TASKS["qa"], NEW)
    assert script == "/workspace/transformers/examples/pytorch/question-answering/run_qa.py"


@pytest.mark.parametrize(
    ("name", "stack", "fact", "remedy"),
    [
        ("qa", NEW._replace(examples=None), "without the examples", "python build.py --transformers 5.23.0 --examples"),
        ("fim", NEW._replace(transformers="4.38.2"), "do not have the task", "transformers 4.39 or later"),
    ],
)
def test_no_script(name: str, stack: Stack, fact: str, remedy: str) -> None:
    with pytest.raises(Refusal, match=fact) as caught:
        find_script(name, TASKS[name], stack)
    assert remedy in caught.value.remedy and caught.value.code == 2


@pytest.mark.parametrize(
    ("name", "there", "value", "remedy"),
    [
        ("ner", ["datasets", "evaluate"], "seqeval", "build it with python build.py --tasks token-classification"),
        ("ctc", ["datasets"], "evaluate, jiwer, librosa",
         "pip install evaluate jiwer librosa in an image FROM this one"),
    ],
)  # fmt: skip
def test_a_task_without_its_packages_is_refused(name: str, there: list[str], value: str, remedy: str) -> None:
    with pytest.raises(Refusal, match="no requirements") as caught:
        check_needs(name, lambda: there, lambda: there)
    assert (caught.value.value, caught.value.remedy) == (value, remedy)


def test_python_is_asked_only_for_what_is_not_in_the_image() -> None:
    asked: list[str] = []

    def sure() -> list[str]:
        asked.append("python")
        return ["Datasets", "evaluate", "scikit.learn"]

    check_needs("glue", lambda: ["datasets", "evaluate", "scikit_learn"], sure)
    assert asked == []
    check_needs("glue", lambda: ["datasets", "evaluate"], sure)
    assert asked == ["python"]


def test_packages_are_read_from_their_metadata(tmp_path: Path) -> None:
    for name in ("datasets", "datasets-4.0.0.dist-info", "rouge_score-0.1.2.dist-info", "old-1.egg-info", "x.py"):
        (tmp_path / name).mkdir()
    assert sorted(list_packages(str(tmp_path))) == ["datasets", "old", "rouge_score"]
    assert list_packages(str(tmp_path / "none")) == []


def test_the_builder_knows_the_same_packages() -> None:
    table = catalog.load()
    assert set(BUILT) == set(table.tasks)
    everywhere = {name for row in table.transformers.values() for name in names(row.requires)}
    for directory in BUILT:
        assert set(NEEDS[directory]) <= everywhere | names(table.tasks[directory]), directory


def names(requirements: tuple[str, ...]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}


def test_the_list_names_all_and_what_cannot_run() -> None:
    text = list_tasks(NEW._replace(transformers="4.38.2"), lambda: ["datasets", "evaluate", "scikit-learn"])
    assert all(task.script in text for task in TASKS.values())
    assert "words in the middle (needs transformers 4.39)\n" in text
    assert "named entities (lacks seqeval)\n" in text
    assert "extractive question answering\n" in text
    assert "--source_prefix 'translate English to Romanian: ' --source_lang" in text
