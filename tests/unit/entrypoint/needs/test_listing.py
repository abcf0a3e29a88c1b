"""The table of all tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.machine.image import Stack
from entrypoint.needs.listing import list_tasks
from entrypoint.tasks.tasks import TASKS

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")


def test_the_list_marks_scripts_that_fail_or_are_missing(tmp_path: Path) -> None:
    (tmp_path / "transformers-5.23.0.dist-info").mkdir()
    scripts = tmp_path / "examples/pytorch/language-modeling"
    scripts.mkdir(parents=True)
    (scripts / "run_plm.py").write_text("Trainer(processing_classtokenizer=tokenizer)")
    (scripts / "run_clm.py").write_text("Trainer(processing_class=tokenizer)")
    stack = NEW._replace(site=str(tmp_path), examples=str(tmp_path))

    text = list_tasks(stack, [str(tmp_path)], lambda: ["datasets", "evaluate", "scikit-learn"])

    assert "words in any order (fails with transformers 5.23.0)\n" in text
    assert "next words\n" in text and "masked words (lacks its script)\n" in text
    assert "lacks its script" not in list_tasks(stack._replace(examples=None), [], lambda: [])


@pytest.mark.parametrize(
    ("datasets", "more", "said"),
    [("4.8.0", [], " (lacks torchcodec)"), ("4.8.0", ["torchcodec"], ""), ("3.6.0", [], "")],
)
def test_the_list_says_what_decodes_sound(tmp_path: Path, datasets: str, more: list[str], said: str) -> None:
    (tmp_path / f"datasets-{datasets}.dist-info").mkdir()
    there = ["datasets", "evaluate", "librosa", "jiwer", "torchvision", *more]
    text = list_tasks(NEW._replace(examples=None), [str(tmp_path)], lambda: there)
    assert f"spoken commands{said}\n" in text and f"speech to text{said}\n" in text
    assert f"speech without its text{said}\n" in text and "masked images\n" in text


def test_the_list_names_all_and_what_cannot_run() -> None:
    text = list_tasks(NEW._replace(transformers="4.38.2"), [], lambda: ["datasets", "evaluate", "scikit-learn"])
    assert all(task.script in text for task in TASKS.values())
    assert "words in the middle (needs transformers 4.39)\n" in text
    assert "named entities (lacks seqeval)\n" in text
    assert "extractive question answering (lacks its script)\n" in text
    assert "--source_prefix 'translate English to Romanian: ' --source_lang" in text
