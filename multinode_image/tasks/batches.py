"""Batches of examples of like length, padded to their longest: less is computed, and the order of examples changes.

Since 4.46 the Trainer also evaluates and predicts in the order of lengths that a training with group_by_length has, and
gives what it predicts back in that order (transformers/trainer.py, _get_eval_sampler).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack, release
from multinode_image.numbers import is_no, is_true
from multinode_image.tasks.aliases import Flag, list_names
from multinode_image.tasks.table import Task

REORDERED = (4, 46)
FIXED, GROUP = "pad_to_max_length", "group_by_length"
GROUPS = (GROUP, "train_sampling_strategy")
# In the text of a script: a text of any length becomes as long as the longest that there may be.
FIXES = re.compile(r"^[^#\n]*padding\s*=\s*[\"']max_length[\"']", re.MULTILINE)
EVALUATES = ("do_eval", *list_names("eval_strategy"))


def find_reordered(task: Task, arguments: Mapping[str, object], stack: Stack) -> str | None:
    """Return the argument for which predictions have to be in the order of the examples, where they would not be."""
    if release(stack.transformers) < REORDERED:
        return None
    names = ("do_predict", *(EVALUATES if task.ordered else ()))
    return next((name for name in names if name in arguments and not is_no(str(arguments[name]))), None)


def check_order(task: Task, arguments: Mapping[str, object], stack: Stack) -> None:
    """Raise Refusal where predictions would be compared with, or written down for, other examples than their own."""
    grouped = is_true(arguments.get(GROUP)) or arguments.get("train_sampling_strategy") == GROUP
    if grouped and (reader := find_reordered(task, arguments, stack)):
        version = f"transformers {stack.transformers}"
        fact = f"{version} evaluates and predicts in the order of lengths, too, and {task.name} needs that of the data"
        remedy = "--do_train alone, and the rest in a start of its own with --model_name_or_path DIRECTORY"
        raise Refusal(fact, f"--{GROUP} and --{reader}", remedy)


def describe_batches(task: Task, left: Iterable[Flag]) -> list[str]:
    """Return a note on what the defaults make of batches; none where they make nothing of them."""
    names = {flag.name for flag in left}
    if names.isdisjoint((FIXED, *GROUPS)):
        return []
    if names.isdisjoint(GROUPS):
        more = ", and with --do_train alone put together by length" if task.ordered else ""
        return [f"batches are padded to their longest example{more}; --{FIXED} True for a fixed length"]
    return [f"batches have examples of like length and are padded to the longest; --{GROUP} False for any order"]


def advise_padding(script: str, source: str) -> list[str]:
    """Return a note on what a user's script computes for nothing; none where that cannot be seen in its text."""
    if not FIXES.search(source):
        return []
    better = (
        "a data_collator such as DataCollatorWithPadding(tokenizer) pads to the longest of a batch, which is faster"
    )
    return [f'{script} has padding="max_length": {better}']
