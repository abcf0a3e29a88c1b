"""What is known of an example script of transformers: its defaults, and where each of them makes no sense."""

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
