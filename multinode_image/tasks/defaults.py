"""The defaults of a task, and which of them make sense beside what was typed."""

from __future__ import annotations

import os
from collections.abc import Mapping

from multinode_image.machine.image import Stack
from multinode_image.numbers import is_no
from multinode_image.tasks.aliases import ALIASES, Flag, has_ccl, list_names, split_flags, translate
from multinode_image.tasks.batches import FIXED, GROUPS, find_reordered
from multinode_image.tasks.table import ACCELERATE, OTHER, Task

OUTPUT, OUTPUT_DIR, MAX_STEPS = "/workspace/output", "output_dir", "max_steps"
# A default, and the flags beside which it makes no sense; one of `do_` and `pad_` counts if it is switched on.
UNLESS = {
    "dataset_name": ("train_file", "validation_file", "test_file"),
    "dataset_config_name": ("dataset_name", "train_file", "validation_file"),
    "task_name": ("dataset_name", "train_file", "validation_file"),
    "label_column_name": ("dataset_name", "train_file"),
    "text_column_names": ("dataset_name", "train_file"),
    "num_train_epochs": (MAX_STEPS,),
    # A typed one asks for nothing else.
    "do_train": ("do_eval", "do_predict"),
    "do_eval": ("do_train", "do_predict"),
    "model_type": ("model_name_or_path",),
    **dict.fromkeys(GROUPS, (*GROUPS, FIXED)),
}
# Flags that describe a model without weights, of the tasks that can train one.
SCRATCH = ("model_type", "config_name", "config_overrides")
# What the default prefix of T5 is for, which has learned each of its languages with another.
OF_PREFIX = {"model_name_or_path": "t5", "source_lang": "en", "target_lang": "ro"}


def list_defaults(task: Task, stack: Stack, *, many: bool) -> list[Flag]:
    """List the flags that the script of the installed release gets where the user gives none."""
    defaults = [
        flag._replace(values=tuple(value.replace("~", " ") for value in flag.values))
        for flag in split_flags(task.defaults.split())
    ]
    if task.kind == OTHER:
        return defaults
    defaults.append(Flag(OUTPUT_DIR, (f"{OUTPUT}/{task.name}",)))
    if task.kind == ACCELERATE:
        return defaults
    defaults.append(Flag("use_cpu", ()))
    if many and has_ccl(stack):
        defaults.append(Flag("ddp_backend", ("ccl",)))
    return translate(defaults, stack, ALIASES[task.kind]).flags


def choose_defaults(defaults: list[Flag], typed: Mapping[str, str], task: Task, stack: Stack) -> list[Flag]:
    """Return the defaults that make sense beside the flags that are typed, by their values."""
    left = [flag for flag in defaults if flag.name not in typed and not is_senseless(flag.name, typed, task)]
    if find_reordered(task, {**dict.fromkeys((flag.name for flag in left), ""), **typed}, stack):
        return [flag for flag in left if flag.name not in GROUPS]
    return left


def is_senseless(name: str, typed: Mapping[str, str], task: Task) -> bool:
    """Return whether a default makes no sense beside the flags that are typed, by their values."""
    beside = next((UNLESS[each] for each in list_names(name) if each in UNLESS), ())
    names = (*(other for each in beside for other in list_names(each)), *list_names(name)[1:])
    if any(each in typed and not (each.startswith(("do_", "pad_")) and is_no(typed[each])) for each in names):
        return True
    if name == "do_eval":  # most scripts end in "--do_eval requires a validation dataset", after minutes of tokenizing
        return "train_file" in typed and "validation_file" not in typed and not task.language_model
    if name == "model_name_or_path":
        return (task.language_model or task.kind == OTHER) and any(each in typed for each in SCRATCH)
    return name == "source_prefix" and any(is_other(usual, typed.get(each)) for each, usual in OF_PREFIX.items())


def is_other(usual: str, value: str | None) -> bool:
    """Return whether a value does not begin like the usual one; of a path the last part counts."""
    return value is not None and not os.path.basename(value.rstrip("/")).lower().startswith(usual)
