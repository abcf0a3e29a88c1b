"""Which defaults of a task make sense beside what was typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrypoint.numbers import is_no
from entrypoint.tasks.task import WITHOUT_EVAL, absent, any_of, both, given, given_other, switched_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.tasks.flags import Flag
    from entrypoint.tasks.task import Conditions, Find

# A default, and the conditions of which any one makes it senseless, in every task.
UNLESS: Mapping[str, Conditions] = {
    "dataset_name": any_of("train_file", "validation_file", "test_file", "train_dir", "validation_dir", "task_name"),
    "dataset_config_name": any_of("dataset_name", "dataset_config", "train_file", "validation_file"),
    "dataset_config_names": any_of("dataset_name"),
    "dataset_split_names": any_of("dataset_name"),
    "task_name": any_of("dataset_name", "train_file", "validation_file"),
    "image_column_name": any_of("dataset_name", "train_dir"),
    "label_column_name": any_of("dataset_name", "train_file", "train_dir"),
    "text_column_names": any_of("dataset_name", "train_file"),
    "text_column_name": any_of("dataset_name"),
    "save_strategy": (
        both(switched_on("load_best_model_at_end"), given_other("eval_strategy", than="epoch")),
        both(switched_on("load_best_model_at_end"), given_other("evaluation_strategy", than="epoch")),
    ),
    "num_train_epochs": any_of("max_steps", "max_train_steps"),
    "max_steps": any_of("num_train_epochs"),
    "max_train_steps": any_of("num_train_epochs"),
    "warmup_steps": any_of("warmup_ratio"),
    "warmup_ratio": any_of("warmup_steps"),
    "use_cpu": any_of("no_cuda"),
    "do_train": (switched_on("do_eval"), switched_on("do_predict")),
    # Without a file for it most scripts end in "--do_eval requires a validation dataset", after minutes of tokenizing.
    "do_eval": (*WITHOUT_EVAL, both(given("train_file"), absent("validation_file"))),
    "no_cuda": any_of("use_cpu"),
}
# A default that makes sense only while others, which come first here, have their own values: evaluation in training
# where there is one at all, and the best model where evaluation and saving keep step (transformers/training_args.py).
BESIDE = {
    "eval_strategy": ("do_eval",),
    "evaluation_strategy": ("do_eval",),
    "load_best_model_at_end": ("eval_strategy", "evaluation_strategy", "save_strategy"),
    "metric_for_best_model": ("load_best_model_at_end",),
    "greater_is_better": ("load_best_model_at_end",),
}
# A strategy, and the number of steps that says nothing beside another one than `steps`.
BY_STEPS = {"eval_strategy": "eval_steps", "evaluation_strategy": "eval_steps", "save_strategy": "save_steps"}


def choose_defaults(defaults: list[Flag], given: Mapping[str, str], unless: Mapping[str, Conditions]) -> list[Flag]:
    """Return the defaults that make sense beside what is given; a typed number of steps makes a strategy `steps`.

    unless: rows of the task, before those of UNLESS.
    """
    unless = {**UNLESS, **unless}
    left = leave(defaults, given, unless)
    steps = [flag for flag in left if BY_STEPS.get(flag.name) in given and flag.values != ("steps",)]
    if not steps:
        return left
    left = leave(defaults, {**given, **dict.fromkeys((flag.name for flag in steps), "steps")}, unless)
    return [*left, *(flag._replace(values=("steps",)) for flag in steps)]


def leave(defaults: list[Flag], given: Mapping[str, str], unless: Mapping[str, Conditions]) -> list[Flag]:
    """Return the defaults that no typed flag replaces; argparse takes the beginning of a name for the whole."""
    short = given.keys() - {flag.name for flag in defaults}

    def find(name: str) -> list[str]:
        return [given[each] for each in given if each == name or (each in short and name.startswith(each))]

    def is_replaced(name: str) -> bool:
        return bool(find(name)) or any(condition(find) for condition in unless.get(name, ()))

    left = [flag for flag in defaults if not is_replaced(flag.name)]
    return drop_alone(left, defaults, find)


def drop_alone(left: list[Flag], defaults: list[Flag], find: Find) -> list[Flag]:
    """Return the defaults without those whose partners in BESIDE were replaced; find: the values typed for a flag."""
    usual = {flag.name: flag.values[0] if flag.values else "" for flag in defaults}
    names = {flag.name for flag in left}
    for name, others in BESIDE.items():
        gone = (other for other in others if other in usual and other not in names)
        if any(not find(other) or any(is_other(each, usual[other]) for each in find(other)) for other in gone):
            names.discard(name)
    return [flag for flag in left if flag.name in names]


def is_other(value: str, usual: str) -> bool:
    """Return whether a value differs from the usual one; a flag without a value is on, and `best` fits every other."""
    return is_no(value) if usual in ("", "True") else value not in (usual, "best")
