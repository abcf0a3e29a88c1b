"""What is known of an example script of transformers: its defaults, and where each of them makes no sense."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, NamedTuple

from entrypoint.errors import Refusal
from entrypoint.machine.image import release
from entrypoint.numbers import is_no

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from entrypoint.machine.image import Stack

    # The flags that a condition asks for, so that a misspelled one is found by mypy.
    Name = Literal[
        "config_name", "config_overrides", "dataset_config", "dataset_config_name", "dataset_name", "do_eval",
        "do_predict", "do_train", "eval_strategy", "evaluation_strategy", "load_best_model_at_end", "max_steps",
        "max_train_steps", "model_name_or_path", "model_type", "no_cuda", "num_train_epochs", "source_lang",
        "target_lang", "task_name", "test_file", "train_dir", "train_file", "use_cpu", "validation_dir",
        "validation_file", "warmup_ratio", "warmup_steps",
    ]  # fmt: skip
    # Returns the values that are given for a flag; one without a value has an empty text.
    Find = Callable[[str], list[str]]
    # Says of what is given whether it is met.
    Condition = Callable[[Find], bool]
    Conditions = tuple[Condition, ...]

DIRECTORY = "examples/pytorch"
# Kinds: a script of the Trainer; one that uses accelerate directly; one with flags of its own, which does not train.
TRAINER, ACCELERATE, OTHER = "trainer", "accelerate", "other"


# These are functions, for a class of named tuples takes 0.1 ms of every start.
def given(flag: Name) -> Condition:
    """Return the condition that a flag is given."""
    return lambda find: bool(find(flag))


def absent(flag: Name) -> Condition:
    """Return the condition that a flag is not given."""
    return lambda find: not find(flag)


def switched_on(flag: Name) -> Condition:
    """Return the condition that a flag is given, and not with a word for no."""
    return lambda find: not all(map(is_no, find(flag)))


def given_other(flag: Name, *, than: str) -> Condition:
    """Return the condition that a flag has a value which does not begin with this one; of a path the last part counts.

    `/d/t5-base` begins with `t5`.
    """

    def is_other(value: str) -> bool:
        return not os.path.basename(value.rstrip("/")).lower().startswith(than)

    return lambda find: any(map(is_other, find(flag)))


def both(first: Condition, second: Condition) -> Condition:
    """Return the condition that two others are met."""
    return lambda find: first(find) and second(find)


def any_of(*flags: Name) -> Conditions:
    """Return a condition for each of several flags: that it is given."""
    return tuple(map(given, flags))


# A typed --do_train or --do_predict asks for nothing else.
WITHOUT_EVAL: Conditions = (switched_on("do_train"), switched_on("do_predict"))


class Task(NamedTuple):
    """A script below examples/pytorch, its defaults as a command line, and what it trains.

    since: the first release of transformers whose script takes the defaults; unless: defaults that make no sense beside
    other flags, as in UNLESS of defaults.py.
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


def place_script(name: str, task: Task, stack: Stack) -> str:
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
