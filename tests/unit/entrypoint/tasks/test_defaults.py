"""The defaults that are left beside what was typed."""

from __future__ import annotations

import pytest

from entrypoint.machine.image import Stack
from entrypoint.tasks.arguments import arguments, list_defaults
from entrypoint.tasks.defaults import BESIDE, BY_STEPS, UNLESS
from entrypoint.tasks.flags import split_flags
from entrypoint.tasks.tasks import TASKS

NEW = Stack("2.13.0+cpu", "5.23.0", "3.11", "gloo", "/workspace/transformers", "")
GUIDE = NEW._replace(torch="2.4.0+cpu", transformers="4.46.0", backend="ccl")
OLD = GUIDE._replace(transformers="4.31.0", backend="gloo")


def words(name: str, line: str, stack: Stack = NEW) -> list[str]:
    """Return the command line of a task in one process."""
    return arguments(name, TASKS[name], line.split(), stack, many=False).words


def text(name: str, line: str, stack: Stack = NEW) -> str:
    return " ".join(words(name, line, stack))


def test_every_row_is_about_a_default_of_a_task() -> None:
    found = (list_defaults(name, task, stack, many=False) for name, task in TASKS.items() for stack in (NEW, OLD))
    names = {flag.name for flags in found for flag in flags}
    assert {*UNLESS, *BESIDE, *BY_STEPS} - names == set()


@pytest.mark.parametrize(
    ("name", "line", "stack", "gone"),
    [
        ("qa", "--train_file t.json", NEW, "--dataset_name"),
        ("qa", "--train_f t.json", NEW, "--dataset_name"),
        ("qa", "--output_d /out", NEW, "/workspace/output"),
        ("clm", "--dataset_name mine", NEW, "--dataset_config_name"),
        ("summarization", "--dataset_config x", NEW, "--dataset_config_name"),
        ("image-classification", "--train_dir pictures", NEW, "--dataset_name"),
        ("mae", "--validation_dir pictures", NEW, "--dataset_name"),
        ("qa", "--max_steps 10", NEW, "--num_train_epochs"),
        ("qa-no-trainer", "--max_steps 10", NEW, "--num_train_epochs"),
        ("qa", "--no_cuda False", GUIDE, "--use_cpu"),
        ("mim", "--evaluation_strategy no", NEW, "--eval_strategy epoch"),
        ("clm", "--model_type gpt2 --tokenizer_name /d/gpt2 --train_file t.txt", NEW, "--model_name_or_path"),
        ("mlm", "--config_name /d/bert --tokenizer_name /d/bert", NEW, "--model_name_or_path"),
        ("plm", "--config_overrides=n_layer=2", NEW, "--model_name_or_path"),
        ("fim", "--model-type gpt2", NEW, "--model_name_or_path"),
        ("clm-no-trainer", "--model_type gpt2", NEW, "--model_name_or_path"),
        ("mlm-no-trainer", "--config_name /d/bert", NEW, "--model_name_or_path"),
        ("fim-no-trainer", "--model_t gpt2", NEW, "--model_name_or_path"),
        ("mim", "--model_name_or_path /d/vit", NEW, "--model_type"),
        ("mim-no-trainer", "--model_name_or_path /d/gpt2", NEW, "--model_type"),
        ("generation", "--model_name_or_path facebook/opt-350m", NEW, "--model_type"),
        ("generation", "--model_type opt", NEW, "--model_name_or_path"),
        ("mim", "--eval_strategy no", OLD, "--evaluation_strategy epoch"),
        ("speech-seq2seq", "--dataset_name me/calls", NEW, "--language hindi"),
        ("speech-seq2seq", "--dataset_config_name de", NEW, "--language hindi"),
        ("speech-seq2seq", "--dataset_name me/calls", NEW, "--train_split_name"),
        ("speech-seq2seq", "--dataset_name me/calls", NEW, "--eval_split_name"),
        ("ctc-adapter", "--dataset_name me/swahili", NEW, "--target_language tur"),
        ("ctc-adapter", "--dataset_config_name sw", NEW, "--target_language tur"),
        ("instance-segmentation", "--dataset_name me/cells", NEW, "--do_reduce_labels"),
        ("instance-segmentation-no-trainer", "--dataset_name me/cells", NEW, "--do_reduce_labels"),
    ],
)
def test_what_makes_no_sense_beside_the_user_s_is_left_out(name: str, line: str, stack: Stack, gone: str) -> None:
    assert gone in text(name, "", stack)
    assert gone not in text(name, line, stack)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "--do_train --do_eval"),
        ("--do_eval", "--do_eval"),
        ("--do_train", "--do_train"),
        ("--do_predict", "--do_predict"),
        ("--do-eval=True", "--do-eval=True"),
        ("--do_e", "--do_e"),
        ("--do_train --do_predict", "--do_train --do_predict"),
        ("--do_eval False", "--do_train --do_eval False"),
        ("--do_train=0", "--do_eval --do_train=0"),
        ("--do_predict no", "--do_train --do_eval --do_predict no"),
    ],
)
def test_who_says_what_is_done_gets_nothing_else(line: str, expected: str) -> None:
    flags = split_flags(words("glue", f"--dataset_name imdb {line}"))
    assert " ".join(word for flag in flags if flag.name.startswith(("do_", "do-")) for word in flag.words()) == expected


@pytest.mark.parametrize(
    ("name", "line", "evaluates"),
    [
        ("qa", "--train_file t.json", False),
        ("qa", "--train_file t.json --test_file x.json", False),
        ("qa", "--train_f t.json --validation_f v.json", True),
        ("qa", "--train_file t.json --do_eval", True),
        ("clip", "--train_file t.json", False),
        ("summarization", "--validation_file v.json", True),
        ("clm", "--train_file t.txt", True),
        ("mlm", "--train_file t.txt", True),
        ("plm", "--train_file t.txt", True),
        ("fim", "--train_file t.txt", True),
        ("fim", "--train_file t.txt --do_train", False),
    ],
)
def test_a_script_evaluates_where_it_has_something_for_it(name: str, line: str, evaluates: bool) -> None:
    assert ("--do_eval" in words(name, line)) is evaluates


BEST = "--metric_for_best_model eval_map --greater_is_better True --load_best_model_at_end True"
EPOCHS = "--eval_strategy epoch --save_strategy epoch"
STRATEGIES = ("do_", "load_", "metric_", "greater_", "eval_s", "save_s", "evaluation_")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", f"--do_train --do_eval {BEST} {EPOCHS}"),
        ("--eval_strategy no", "--do_train --do_eval --save_strategy epoch --eval_strategy no"),
        ("--eval_strategy epoch", f"--do_train --do_eval {BEST} --save_strategy epoch --eval_strategy epoch"),
        ("--save_strategy no", "--do_train --do_eval --eval_strategy epoch --save_strategy no"),
        ("--save_strategy best", f"--do_train --do_eval {BEST} --eval_strategy epoch --save_strategy best"),
        ("--save_steps 2", "--do_train --do_eval --eval_strategy epoch --save_strategy steps --save_steps 2"),
        ("--eval_steps 2", "--do_train --do_eval --save_strategy epoch --eval_strategy steps --eval_steps 2"),
        ("--eval_strategy steps --eval_steps 2",
         "--do_train --do_eval --save_strategy epoch --eval_strategy steps --eval_steps 2"),
        ("--eval_strategy steps --load_best_model_at_end",
         "--do_train --do_eval --metric_for_best_model eval_map --greater_is_better True --eval_strategy steps "
         "--load_best_model_at_end"),
        ("--load_best_model_at_end False", f"--do_train --do_eval {EPOCHS} --load_best_model_at_end False"),
        ("--do_train", "--save_strategy epoch --do_train"),
        ("--do_train --eval_steps 2", "--save_strategy epoch --do_train --eval_steps 2"),
        ("--do_train --eval_strategy epoch", f"{BEST} --save_strategy epoch --do_train --eval_strategy epoch"),
        ("--do_train --do_e", f"{BEST} {EPOCHS} --do_train --do_e"),
        ("--do_eval False", "--do_train --save_strategy epoch --do_eval False"),
        ("--do_eval", f"{BEST} {EPOCHS} --do_eval"),
        ("--do_predict", "--save_strategy epoch --do_predict"),
    ],
)  # fmt: skip
def test_a_typed_strategy_takes_the_defaults_with_it_that_contradict_it(line: str, expected: str) -> None:
    flags = split_flags(words("object-detection", line))
    assert " ".join(word for flag in flags if flag.name.startswith(STRATEGIES) for word in flag.words()) == expected


@pytest.mark.parametrize("line", ["--evaluation_strategy no", "--do_train", "--save_steps 9"])
def test_strategies_have_another_name_in_older_releases(line: str) -> None:
    made = words("image-classification", line, GUIDE._replace(transformers="4.40.0"))
    assert "--load_best_model_at_end" not in made and "--eval_strategy" not in made
    assert ("--evaluation_strategy" in made) is (line != "--do_train")


def test_the_beginning_of_another_default_is_none_of_it() -> None:
    assert "--dataset_name" in text("speech-seq2seq", "--task translate")


def test_the_languages_of_xnli_do_not_depend_on_a_data_set() -> None:
    assert "--language de" in text("xnli", "--dataset_name me/pairs")
    assert "--language hindi" in text("speech-seq2seq", "--dataset_config_name hi")
