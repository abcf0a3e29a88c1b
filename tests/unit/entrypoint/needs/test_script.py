"""Whether the script of a task can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack
from entrypoint.needs.script import check_evaluation, check_flaws
from entrypoint.tasks.command import read_program
from entrypoint.tasks.job import Job

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/w", "")
# A line of each script, from its evaluation.
SOURCES = {
    "object-detection": '        batch_image_sizes = torch.tensor([x["orig_size"] for x in batch])\n',
    "object-detection-no-trainer": '        for label in batch["labels"]:\n',
    "instance-segmentation": "        for masks, labels in zip(batch_masks, batch_labels):\n",
    "instance-segmentation-no-trainer": "        inputs = accelerator.gather_for_metrics(inputs)\n",
}


def test_a_script_that_is_known_to_fail_is_refused(tmp_path: Path) -> None:
    (tmp_path / "accelerate-1.15.0.dist-info").mkdir()
    check_flaws("clm-no-trainer", "/t/run_clm_no_trainer.py", "DistributedType.XLA", [str(tmp_path)])
    with pytest.raises(Refusal, match="known to fail") as caught:
        check_flaws("clm-no-trainer", "/t/run_clm_no_trainer.py", "DistributedType.TPU", [str(tmp_path)])
    assert caught.value.value == "DistributedType.TPU with accelerate 1.15.0" and caught.value.code == 2
    assert "DistributedType.XLA, mounted at /t/run_clm_no_trainer.py" in caught.value.remedy


@pytest.mark.parametrize(
    ("task", "words", "ranks", "value", "remedy"),
    [
        ("object-detection", [], 2, "--do_eval, --eval_strategy, 2 ranks", "`object-detection-no-trainer`, or --do_tr"),
        ("object-detection", ["--do_train", "--eval_strategy", "epoch"], 4, "--eval_strategy, 4 ranks", "--do_train"),
        ("object-detection", ["--do_eval"], 2, "--do_eval, --eval_strategy, 2 ranks", "--nproc 1 on one node"),
        ("object-detection", ["--do_train"], 2, None, ""),
        ("object-detection", ["--do_train", "--eval_strategy", "no"], 2, None, ""),
        ("object-detection", [], 1, None, ""),
        ("object-detection-no-trainer", [], 2, None, ""),
        ("instance-segmentation", [], 2, "--do_eval, --eval_strategy, 2 ranks", "--do_train, which leaves"),
        ("instance-segmentation", ["--do_train"], 2, None, ""),
        ("instance-segmentation-no-trainer", [], 2, "2 ranks", "`instance-segmentation --do_train`"),
        ("instance-segmentation-no-trainer", [], 1, None, ""),
    ],
)
def test_a_script_that_cannot_evaluate_with_several_ranks_is_refused(
    task: str, words: list[str], ranks: int, value: str | None, remedy: str
) -> None:
    given = read_program(Job("task", task, words), NEW, "/", many=ranks > 1).given
    check_evaluation(task, "", given, ranks)
    if value is None:
        return check_evaluation(task, SOURCES[task], given, ranks)
    with pytest.raises(Refusal, match="cannot evaluate with several ranks") as caught:
        check_evaluation(task, SOURCES[task], given, ranks)
    assert (caught.value.value, caught.value.code) == (value, 2) and remedy in caught.value.remedy
