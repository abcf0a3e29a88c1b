"""Values that cannot be understood or do not exist: the fact, the value, and what to type instead."""

from __future__ import annotations

import pytest

from images.model import Request
from images.plan import catalog, request
from images.plan.request import Problem, problems

TABLE = catalog.load()
NO_RELEASE = "no such release of {} in images/versions.toml"
MINOR = "that is not a minor release of Python"
TASK = "no directory of the examples for text has that name"


def only(asked: Request) -> Problem:
    """Return the one problem of a request."""
    [found] = problems(asked, TABLE)
    return found


@pytest.mark.parametrize(
    "asked",
    [
        Request(),
        Request(torch="2.13.0", transformers="5.23.0", python="3.12", base="mine:1", backend="ccl"),
        Request(torch="2.13", base="intel", tasks=("question-answering", "translation")),
        Request(base="debian", backend="gloo", examples="none", tag="x", wheelhouse="y"),
    ],
)
def test_what_can_be_understood_has_no_problems(asked: Request) -> None:
    assert problems(asked, TABLE) == []


@pytest.mark.parametrize(
    ("asked", "fact", "value", "remedy"),
    [
        (Request(torch="2.12.9"), NO_RELEASE.format("torch"), "2.12.9", "--torch 2.12.1"),
        (Request(torch="latest"), "that is not a version of torch", "'latest'", "--torch 2.13.0"),
        (Request(torch="9" * 5000), "that is not a version of torch", "'999", "--torch 2.13.0"),
        (Request(transformers="4.57.9"), NO_RELEASE.format("transformers"), "4.57.9", "--transformers 4.57.6"),
        (Request(transformers="6.0.0"), NO_RELEASE.format("transformers"), "6.0.0", "--transformers 5.24.0"),
        (Request(transformers=""), "that is not a version of transformers", "''", "--transformers 5.23.0"),
        (Request(python="three"), MINOR, "'three'", "--python 3.11"),
        (Request(python="3.11.2"), MINOR, "'3.11.2'", "--python 3.11"),
        (Request(base="mine:1", python="3.\u0661"), MINOR, "'3.\u0661'", "--python 3.11"),
        (Request(base="mine:1", python=f"3.{'9' * 5000}"), MINOR, "'3.999", "--python 3.11"),
        (Request(base=""), "that is not a base", "''", "--base debian"),
        (Request(base=" "), "that is not a base", "' '", "--base debian"),
        (Request(base="mine:1"), "the Python of an image must be given", "mine:1", "--base mine:1 --python 3.11"),
        (Request(backend="nccl"), "no such backend on a CPU", "'nccl'", "--backend gloo"),
        (Request(tasks=("question-answer",)), TASK, "'question-answer'", "--tasks question-answering"),
        (Request(tasks=("xyz",)), TASK, "'xyz'", "--tasks with one or more of " + ", ".join(TABLE.tasks)),
    ],
)
def test_a_problem_has_three_parts(asked: Request, fact: str, value: str, remedy: str) -> None:
    found = only(asked)

    assert (found.fact, found.remedy) == (fact, remedy)
    assert found.value == value or (len(found.value) > 5000 and found.value.startswith(value))


@pytest.mark.parametrize(
    ("asked", "corrected"),
    [
        (Request(torch="2.4.5", backend="ccl"), Request(torch="2.4.1", backend="ccl")),
        (Request(transformers="x", tasks=("translation",)), Request(transformers="5.23.0", tasks=("translation",))),
        (Request(backend="nccl"), None),
    ],
)
def test_a_version_is_corrected_within_its_request(asked: Request, corrected: Request | None) -> None:
    assert only(asked).corrected == corrected


def test_every_problem_is_returned() -> None:
    asked = Request(torch="x", transformers="y", python="z", base=" ", backend="mpi", tasks=("a", "b"))

    assert len(problems(asked, TABLE)) == 7


@pytest.mark.parametrize("task", request.MEDIA)
def test_a_task_for_images_or_speech_is_no_misspelt_task_for_text(task: str) -> None:
    found = only(Request(tasks=(task,)))

    assert found.value == f"--tasks {task}"
    assert found.remedy.startswith("pip install what `docker run IMAGE tasks` names")


def test_no_directory_of_the_examples_is_for_text_and_for_media() -> None:
    assert not set(request.MEDIA) & TABLE.tasks.keys()
