"""What is known of an example script of transformers, and which of its defaults make sense beside other flags."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.numbers import NO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from entrypoint.training.flags import Flag

# Kinds: a script of the Trainer; one that uses accelerate directly; one with flags of its own, which does not train.
TRAINER, ACCELERATE, OTHER = "trainer", "accelerate", "other"


class Task(NamedTuple):
    """A script below examples/pytorch, its defaults as a command line, and what it trains.

    since: the first release of transformers whose script takes the defaults; unless: defaults that make no sense beside
    other flags, as in UNLESS.
    """

    script: str
    defaults: str
    about: str
    kind: str = TRAINER
    since: tuple[int, int] = (0, 0)
    unless: Mapping[str, tuple[str, ...]] = {}

    @property
    def trains(self) -> bool:
        """Return whether many processes can work on it."""
        return self.kind != OTHER

    @property
    def directory(self) -> str:
        """Return the directory of the examples that the script and its requirements are in."""
        return self.script.split("/")[0]


# Pieces of the defaults.
TRAIN = "--do_train --do_eval "
BATCH = "--per_device_train_batch_size {} "
EVAL = "--per_device_eval_batch_size {} "

# A default that makes no sense beside another flag of the user's, in every task; beside `flag!=value` only if the flag
# has another value, which differs() says, and beside `flag+other` only if both are given.
UNLESS = {
    "dataset_name": ("train_file", "validation_file", "test_file", "train_dir", "task_name"),
    "dataset_config_name": ("dataset_name", "dataset_config", "train_file", "validation_file"),
    "dataset_config_names": ("dataset_name",),
    "dataset_split_names": ("dataset_name",),
    "task_name": ("dataset_name", "train_file", "validation_file"),
    "image_column_name": ("dataset_name", "train_dir"),
    "label_column_name": ("dataset_name", "train_file", "train_dir"),
    "text_column_names": ("dataset_name", "train_file"),
    "text_column_name": ("dataset_name",),
    "save_strategy": (
        "load_best_model_at_end!=no+eval_strategy!=epoch", "load_best_model_at_end!=no+evaluation_strategy!=epoch",
    ),
    "num_train_epochs": ("max_steps", "max_train_steps"),
    "max_steps": ("num_train_epochs",),
    "max_train_steps": ("num_train_epochs",),
    "warmup_steps": ("warmup_ratio",),
    "warmup_ratio": ("warmup_steps",),
    "use_cpu": ("no_cuda",),
    "do_train": ("do_eval!=no", "do_predict!=no"),
    "do_eval": ("do_train!=no", "do_predict!=no"),
    "no_cuda": ("use_cpu",),
}  # fmt: skip
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


def choose_defaults(
    defaults: list[Flag], given: Mapping[str, str], unless: Mapping[str, tuple[str, ...]]
) -> list[Flag]:
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


def leave(defaults: list[Flag], given: Mapping[str, str], unless: Mapping[str, tuple[str, ...]]) -> list[Flag]:
    """Return the defaults that nothing given replaces; argparse takes the beginning of a name for the name."""
    short = given.keys() - {flag.name for flag in defaults}

    def find(name: str) -> list[str]:
        return [given[each] for each in given if each == name or (each in short and name.startswith(each))]

    def is_met(condition: str) -> bool:
        parts = (part.partition("!=") for part in condition.split("+"))
        return all(any(not value or differs(each, value) for each in find(name)) for name, _, value in parts)

    left = [flag for flag in defaults if not any(map(is_met, (flag.name, *unless.get(flag.name, ()))))]
    return drop_alone(left, defaults, find)


def drop_alone(left: list[Flag], defaults: list[Flag], find: Callable[[str], list[str]]) -> list[Flag]:
    """Return the defaults without those of BESIDE whose others have gone; find: the values given for a flag."""
    usual = {flag.name: flag.values[0] if flag.values else "" for flag in defaults}
    names = {flag.name for flag in left}
    for name, others in BESIDE.items():
        gone = (other for other in others if other in usual and other not in names)
        if any(not find(other) or any(is_other(each, usual[other]) for each in find(other)) for other in gone):
            names.discard(name)
    return [flag for flag in left if flag.name in names]


def is_other(value: str, usual: str) -> bool:
    """Return whether a value differs from that of a default: without one it is on, and `best` goes with any."""
    return value.lower() in NO if usual in ("", "True") else value not in (usual, "best")


def differs(value: str, wanted: str) -> bool:
    """Return whether a value is another one; `/d/t5-base` is `t5`, for the last part of a path may go on."""
    if wanted in NO:
        return value.lower() not in NO
    return not os.path.basename(value.rstrip("/")).lower().startswith(wanted)
