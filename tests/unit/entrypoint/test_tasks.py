"""Tasks: scripts, defaults, and what is left of them beside the user's arguments."""

from __future__ import annotations

import pytest

from entrypoint.errors import Refusal
from entrypoint.stack import Stack
from entrypoint.tasks import TASKS, arguments, find_script, list_tasks

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
GUIDE = NEW._replace(torch="2.4.0+cpu", transformers="4.46.0", backend="ccl")
QA = (
    "--model_name_or_path distilbert/distilbert-base-uncased --dataset_name squad --do_train --do_eval "
    "--per_device_train_batch_size 12 --learning_rate 3e-5 --num_train_epochs 2 --max_seq_length 384 "
    "--doc_stride 128 --output_dir /workspace/output/qa --use_cpu"
)


def make(name: str, line: str, stack: Stack = NEW, *, many: bool = False) -> str:
    return " ".join(arguments(name, TASKS[name], line.split(), stack, many=many).words)


def test_the_guide_s_defaults() -> None:
    assert make("qa", "") == QA
    assert make("qa", "--bf16") == f"{QA} --bf16"
    assert make("qa", "", GUIDE, many=True) == f"{QA} --ddp_backend ccl"
    assert make("qa", "", GUIDE) == QA
    assert make("qa", "", NEW, many=True) == QA


@pytest.mark.parametrize("line", ["--learning_rate 1e-4", "--learning_rate=1e-4", "--learning-rate 1e-4"])
def test_arguments_replace_defaults_one_by_one(line: str) -> None:
    assert make("qa", line) == QA.replace("--learning_rate 3e-5 ", "") + " " + line


def test_own_files_replace_the_dataset() -> None:
    assert "--dataset_name" not in make("qa", "--train_file t.json")
    assert "--dataset_config_name" not in make("clm", "--dataset_name mine")


def test_the_output_is_known() -> None:
    made = arguments("qa", TASKS["qa"], ["--output_dir=/out"], NEW, many=False)
    assert made.output == "/out"
    assert "--output_dir=/out" in made.words and "/workspace/output/qa" not in made.words


def test_a_file_of_arguments_stands_alone() -> None:
    assert make("qa", "args.json") == "args.json"


def test_a_value_may_have_blanks() -> None:
    words = arguments("translation", TASKS["translation"], [], NEW, many=False).words
    assert "translate English to Romanian: " in words


def test_generation_has_flags_of_its_own() -> None:
    assert "--use_cpu" not in make("generation", "--prompt x")


def test_scripts() -> None:
    script = find_script("qa", NEW, TASKS["qa"].script)
    assert script == "/workspace/transformers/examples/pytorch/question-answering/run_qa.py"
    with pytest.raises(Refusal, match="--examples") as caught:
        find_script("qa", NEW._replace(examples=None), TASKS["qa"].script)
    assert "python build.py" in caught.value.remedy


def test_the_list_names_all() -> None:
    text = list_tasks(NEW)
    assert all(task.script in text for task in TASKS.values())
