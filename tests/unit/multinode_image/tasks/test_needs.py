"""What a task needs of its image, before the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack
from multinode_image.tasks.needs import check_arguments, check_reporters, find_nltk, list_tasks
from multinode_image.tasks.table import find_task, place_script

TEXT, MEDIA = "text-classification", "speech-recognition"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Return an image with two scripts and a few packages."""
    site, examples = tmp_path / "site", tmp_path / "examples/pytorch"
    for name in ("datasets-4.0.0", "scikit_learn-1.7", "rouge_score-0.1.2"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    for name in (f"{TEXT}/run_glue.py", f"{MEDIA}/run_speech_recognition_ctc.py"):
        (examples / name).parent.mkdir(parents=True, exist_ok=True)
        (examples / name).touch()
    return Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", str(tmp_path), str(site))


@pytest.mark.parametrize(
    ("name", "arguments", "refused"),
    [
        ("glue", {}, ""),
        ("glue", {"report_to": "all"}, ""),
        ("glue", {"report_to": "none"}, ""),
        ("glue", {"report_to": "kubeflow"}, ""),
        ("glue", {"report_to": "rouge_score"}, ""),
        ("glue", {"report_to": "rouge_score comet_ml"}, "comet-ml"),
        ("glue", {"report_to": "wandb"}, "wandb"),
        ("glue-no-trainer", {"report_to": "wandb"}, ""),
        ("glue-no-trainer", {"report_to": "wandb", "with_tracking": True}, "wandb"),
    ],
)
def test_what_a_training_reports_to_is_in_the_image(
    stack: Stack, name: str, arguments: dict[str, object], refused: str
) -> None:
    try:
        check_reporters(find_task(name), arguments, stack, {})
    except Refusal as refusal:
        assert refused and refusal.code == 2 and f"pip install {refused} " in refusal.remedy
    else:
        assert not refused


@pytest.mark.parametrize(("examples", "name"), [(None, "qa"), ("", "qa"), ("", "mim")])
def test_a_script_that_is_not_there_is_refused(stack: Stack, examples: str | None, name: str) -> None:
    with pytest.raises(Refusal) as caught:
        place_script(name, stack._replace(examples=examples))
    assert caught.value.code == 2 and ("--examples" in caught.value.remedy) is (examples is None)


def test_the_simple_way_to_a_script_is_named_first(stack: Stack) -> None:
    with pytest.raises(Refusal) as caught:
        place_script("qa", stack._replace(examples=None))

    first, _, other = caught.value.remedy.partition("; ")
    assert first == f"build it without --examples none: {stack.again}" and "--examples ARCHIVE" in other


def test_data_of_nltk_that_were_fetched_are_found(tmp_path: Path) -> None:
    summarization, environ = find_task("summarization"), {"HF_HOME": str(tmp_path)}
    assert find_nltk(summarization, environ) == []
    (tmp_path / "nltk_data").mkdir()
    assert [(each.name, each.value) for each in find_nltk(summarization, environ)] == [
        ("NLTK_DATA", f"{tmp_path}/nltk_data")
    ]
    assert find_nltk(find_task("qa"), environ) == []


def test_a_directory_that_a_script_ignores_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        check_arguments(find_task("mae"), {"train_dir": "/d"})
    assert (caught.value.value, caught.value.code) == ("--train_dir /d", 2)
    check_arguments(find_task("mae"), {"train_dir": "/d", "dataset_name": "x"})
    check_arguments(find_task("image-classification"), {"train_dir": "/d"})


def test_the_scripts_of_the_image_are_listed(stack: Stack) -> None:
    rows = list_tasks(stack).splitlines()
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == [
        "smoke", "glue", "speech-recognition-ctc", "examples:",
    ]  # fmt: skip
    assert f"    {TEXT}/run_glue.py --model_name_or_path google-bert" in rows[2]
    with_ccl = list_tasks(stack._replace(backend="ccl", transformers="4.46.0"))
    assert "run_glue.py" in with_ccl and "--ddp_backend" not in with_ccl, "what only several ranks have is not listed"
