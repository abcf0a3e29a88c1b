"""What is known of an example script of transformers, and which of its defaults make sense beside other flags."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.container.image import release
from entrypoint.errors import Refusal
from entrypoint.numbers import is_no

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, Union

    from entrypoint.container.image import Stack
    from entrypoint.training.flags import Flag

    # The flags that a condition asks for, so that a misspelled one is found by mypy.
    Name = Literal[
        "config_name", "config_overrides", "dataset_config", "dataset_config_name", "dataset_name", "do_eval",
        "do_predict", "do_train", "eval_strategy", "evaluation_strategy", "load_best_model_at_end", "max_steps",
        "max_train_steps", "model_name_or_path", "model_type", "no_cuda", "num_train_epochs", "source_lang",
        "target_lang", "task_name", "test_file", "train_dir", "train_file", "use_cpu", "validation_file",
        "warmup_ratio", "warmup_steps",
    ]  # fmt: skip
    Condition = Union["Given", "SwitchedOn", "GivenOther", "Both"]
    Conditions = tuple[Condition, ...]
    # The values that are given for a flag; one without a value has an empty text.
    Find = Callable[[str], list[str]]

DIRECTORY = "examples/pytorch"
# Kinds: a script of the Trainer; one that uses accelerate directly; one with flags of its own, which does not train.
TRAINER, ACCELERATE, OTHER = "trainer", "accelerate", "other"


class Given(NamedTuple):
    """Whether a flag is given."""

    flag: Name

    def is_met(self, find: Find) -> bool:
        """Return whether it is met by what is given."""
        return bool(find(self.flag))


class SwitchedOn(NamedTuple):
    """Whether a flag is given, and not with a word for no."""

    flag: Name

    def is_met(self, find: Find) -> bool:
        """Return whether it is met by what is given."""
        return not all(is_no(value) for value in find(self.flag))


class GivenOther(NamedTuple):
    """Whether a flag is given with another value; `/d/t5-base` is `t5`, for the last part of a path may go on."""

    flag: Name
    than: str

    def is_met(self, find: Find) -> bool:
        """Return whether it is met by what is given."""
        names = (os.path.basename(value.rstrip("/")).lower() for value in find(self.flag))
        return any(not name.startswith(self.than) for name in names)


class Both(NamedTuple):
    """Whether two conditions are met."""

    first: Condition
    second: Condition

    def is_met(self, find: Find) -> bool:
        """Return whether they are met by what is given."""
        return self.first.is_met(find) and self.second.is_met(find)


def any_of(*flags: Name) -> Conditions:
    """Return a condition for each flag: that it is given."""
    return tuple(map(Given, flags))


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
    unless: Mapping[str, Conditions] = {}

    @property
    def trains(self) -> bool:
        """Return whether many processes can work on it."""
        return self.kind != OTHER

    @property
    def directory(self) -> str:
        """Return the directory of the examples that the script and its requirements are in."""
        return self.script.split("/")[0]


def find_script(name: str, task: Task, stack: Stack) -> str:
    """Return the path of a task's script in the image; raise Refusal if the image does not have it."""
    if stack.examples is None:
        remedy = f"{stack.again} --examples <archive, directory or URL>"
        raise Refusal(
            "this image was built without the examples of transformers, which has the task's script", name, remedy
        )
    if release(stack.transformers) < task.since:
        since = ".".join(map(str, task.since))
        remedy = f"an image with transformers {since} or later, or another of the `tasks`"
        raise Refusal("the examples of that release do not have the task", f"{name}, {stack.transformers}", remedy)
    return f"{stack.examples}/{DIRECTORY}/{task.script}"


# Pieces of the defaults.
TRAIN = "--do_train --do_eval "
BATCH = "--per_device_train_batch_size {} "
EVAL = "--per_device_eval_batch_size {} "

# A default, and the conditions of which any one makes it senseless, in every task.
UNLESS: Mapping[str, Conditions] = {
    "dataset_name": any_of("train_file", "validation_file", "test_file", "train_dir", "task_name"),
    "dataset_config_name": any_of("dataset_name", "dataset_config", "train_file", "validation_file"),
    "dataset_config_names": any_of("dataset_name"),
    "dataset_split_names": any_of("dataset_name"),
    "task_name": any_of("dataset_name", "train_file", "validation_file"),
    "image_column_name": any_of("dataset_name", "train_dir"),
    "label_column_name": any_of("dataset_name", "train_file", "train_dir"),
    "text_column_names": any_of("dataset_name", "train_file"),
    "text_column_name": any_of("dataset_name"),
    "save_strategy": (
        Both(SwitchedOn("load_best_model_at_end"), GivenOther("eval_strategy", than="epoch")),
        Both(SwitchedOn("load_best_model_at_end"), GivenOther("evaluation_strategy", than="epoch")),
    ),
    "num_train_epochs": any_of("max_steps", "max_train_steps"),
    "max_steps": any_of("num_train_epochs"),
    "max_train_steps": any_of("num_train_epochs"),
    "warmup_steps": any_of("warmup_ratio"),
    "warmup_ratio": any_of("warmup_steps"),
    "use_cpu": any_of("no_cuda"),
    "do_train": (SwitchedOn("do_eval"), SwitchedOn("do_predict")),
    "do_eval": (SwitchedOn("do_train"), SwitchedOn("do_predict")),
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
    """Return the defaults that nothing given replaces; argparse takes the beginning of a name for the name."""
    short = given.keys() - {flag.name for flag in defaults}

    def find(name: str) -> list[str]:
        return [given[each] for each in given if each == name or (each in short and name.startswith(each))]

    def is_replaced(name: str) -> bool:
        return bool(find(name)) or any(condition.is_met(find) for condition in unless.get(name, ()))

    left = [flag for flag in defaults if not is_replaced(flag.name)]
    return drop_alone(left, defaults, find)


def drop_alone(left: list[Flag], defaults: list[Flag], find: Find) -> list[Flag]:
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
    return is_no(value) if usual in ("", "True") else value not in (usual, "best")
