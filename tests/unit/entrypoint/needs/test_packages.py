"""The packages that the script of a task imports."""

from __future__ import annotations

import re

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import TORCH_INDEX, Stack
from entrypoint.needs.packages import BUILT, NEEDS, check_task_packages
from images.plan import catalog

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
AGAIN = "python build.py --torch 2.13.0 --transformers 5.23.0 --backend gloo"


@pytest.mark.parametrize(
    ("name", "datasets", "there", "value", "remedy"),
    [
        ("ner", "5.0.0", ["datasets", "evaluate"], "seqeval", f"build it with all tasks for text: {AGAIN}"),
        ("clip", "5.0.0", ["datasets"], "torchvision",
         f"pip install --extra-index-url {TORCH_INDEX} torchvision as USER root in an image FROM this one"),
        ("ctc", "3.6.0", ["datasets"], "evaluate, jiwer, librosa",
         "pip install evaluate jiwer librosa as USER root in an image FROM this one"),
        ("ctc", "4.0.0", ["datasets", "evaluate"], "jiwer, librosa, torchcodec",
         "PIP_CONSTRAINT= pip install 'datasets<4' 'pandas<3' jiwer librosa as USER root in an image FROM this one; or "
         f"pip install --extra-index-url {TORCH_INDEX} jiwer librosa torchcodec as USER root in an image FROM this one"
         ", with ffmpeg and the torchcodec for torch 2.13"),
        ("wav2vec2-no-trainer", "5.0.0", ["datasets", "librosa"], "torchcodec",
         "PIP_CONSTRAINT= pip install 'datasets<4' 'pandas<3' as USER root in an image FROM this one; or "
         f"pip install --extra-index-url {TORCH_INDEX} torchcodec as USER root in an image FROM this one, "
         "with ffmpeg and the torchcodec for torch 2.13"),
    ],
)  # fmt: skip
def test_a_task_without_its_packages_is_refused(
    name: str, datasets: str, there: list[str], value: str, remedy: str
) -> None:
    with pytest.raises(Refusal, match="no requirements") as caught:
        check_task_packages(name, NEW, datasets, lambda: there, lambda: there)
    assert (caught.value.value, caught.value.remedy) == (value, remedy)


def test_python_is_asked_only_for_what_is_not_in_the_image() -> None:
    asked: list[str] = []

    def sure() -> list[str]:
        asked.append("python")
        return ["Datasets", "evaluate", "scikit.learn"]

    check_task_packages("glue", NEW, "5.0.0", lambda: ["datasets", "evaluate", "scikit_learn"], sure)
    assert asked == []
    check_task_packages("glue", NEW, "5.0.0", lambda: ["datasets", "evaluate"], sure)
    assert asked == ["python"]


def test_the_builder_knows_the_same_packages() -> None:
    table = catalog.load()
    assert set(BUILT) == set(table.tasks)
    everywhere = {name for row in table.transformers.values() for name in names(row.requires)}
    for directory in BUILT:
        assert set(NEEDS[directory]) <= everywhere | names(table.tasks[directory]), directory


def names(requirements: tuple[str, ...]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}
