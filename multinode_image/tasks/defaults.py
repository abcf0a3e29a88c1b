"""The defaults of a task beside what was typed, what is refused or set for it before its start, and all tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack, list_sites, normalize, read_installed, release
from multinode_image.machine.places import find_downloads
from multinode_image.printing.streams import quote
from multinode_image.reading import is_no, is_true
from multinode_image.settings import Setting
from multinode_image.tasks.aliases import (
    ALIASES,
    Flag,
    find_argument,
    has_ccl,
    is_among,
    list_names,
    split_flags,
    translate,
)
from multinode_image.tasks.table import ACCELERATE, OTHER, TASKS, TRAINER, Task, find_task, list_scripts

REORDERED = (4, 46)
FIXED, GROUP = "pad_to_max_length", "group_by_length"
STRATEGY = "train_sampling_strategy"
GROUPS = (GROUP, STRATEGY)
# In the text of a script: a text of any length becomes as long as the longest that there may be.
FIXES = re.compile(r"^[^#\n]*padding\s*=\s*[\"']max_length[\"']", re.MULTILINE)
EVALUATES = ("do_eval", "eval_strategy")


def find_reordered(task: Task, arguments: Mapping[str, object], stack: Stack) -> str | None:
    """Return the argument for which predictions have to be in the order of the examples, where they would not be."""
    if release(stack.transformers) < REORDERED:
        return None
    names = [name for flag in ("do_predict", *(EVALUATES if task.ordered else ())) for name in list_names(flag)]
    return next((name for name in names if name in arguments and not is_no(str(arguments[name]))), None)


def check_order(task: Task, arguments: Mapping[str, object], stack: Stack) -> None:
    """Raise Refusal where predictions would be compared with, or written down for, other examples than their own."""
    grouped = is_true(find_argument(arguments, GROUP)) or find_argument(arguments, STRATEGY) == GROUP
    if grouped and (reader := find_reordered(task, arguments, stack)):
        version = f"transformers {stack.transformers}"
        fact = f"{version} evaluates and predicts in the order of lengths, too, and {task.name} needs that of the data"
        remedy = "--do_train alone, and the rest in a start of its own with --model_name_or_path DIRECTORY"
        raise Refusal(fact, f"--{GROUP} and --{reader}", remedy)


def describe_batches(task: Task, left: Iterable[Flag]) -> list[str]:
    """Return a note on what the defaults make of batches; none where they make nothing of them."""
    names = {flag.name for flag in left}
    is_grouped = any(is_among(flag, names) for flag in GROUPS)
    if not is_grouped and not is_among(FIXED, names):
        return []
    if not is_grouped:
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


OUTPUT, OUTPUT_DIR, MAX_STEPS = "/workspace/output", "output_dir", "max_steps"
# A default, and the flags beside which it makes no sense.
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
        return [flag for flag in left if not is_among(flag.name, GROUPS)]
    return left


def is_senseless(name: str, typed: Mapping[str, str], task: Task) -> bool:
    """Return whether a default makes no sense beside the flags that are typed, by their values."""
    beside = next((UNLESS[alias] for alias in list_names(name) if alias in UNLESS), ())
    if any(is_asked(flag, typed) for flag in (*beside, *list_names(name)[1:])):
        return True
    # Most scripts end in "--do_eval requires a validation dataset", after minutes of tokenizing.
    if is_among(name, ("do_eval",)):
        trains_only = is_among("train_file", typed) and not is_among("validation_file", typed)
        return trains_only and not task.language_model
    if is_among(name, ("model_name_or_path",)):
        return (task.language_model or task.kind == OTHER) and any(is_among(flag, typed) for flag in SCRATCH)
    others = (is_other(usual, find_argument(typed, flag)) for flag, usual in OF_PREFIX.items())
    return is_among(name, ("source_prefix",)) and any(others)


def is_asked(flag: str, typed: Mapping[str, str]) -> bool:
    """Return whether a flag is typed; one of `do_` and `pad_` counts if it is switched on."""
    value = find_argument(typed, flag)
    return value is not None and not (flag.startswith(("do_", "pad_")) and is_no(value))


def is_other(usual: str, value: str | None) -> bool:
    """Return whether a value does not begin like the usual one; of a path the last part counts."""
    return value is not None and not os.path.basename(value.rstrip("/")).lower().startswith(usual)


# What a task needs of its image, looked at before the start: packages for reports, and data of nltk.

# What --report_to takes that is not the name of a package (transformers/integrations/integration_utils.py).
NO_PACKAGES = ("all", "none", "azure_ml", "flyte", "kubeflow")
# Tasks whose scripts have cifar10 for the name of a data set where no argument has another one.
OF_CIFAR10 = ("image-classification-no-trainer", "mae", "mim", "mim-no-trainer")


def check_arguments(task: Task, arguments: Mapping[str, object]) -> None:
    """Raise Refusal for arguments with which a task would train with other data."""
    given = ((name, find_argument(arguments, name)) for name in ("train_dir", "validation_dir"))
    flag, directory = next((pair for pair in given if pair[1]), ("", None))
    if flag and task.name in OF_CIFAR10 and not find_argument(arguments, "dataset_name"):
        remedy = f"--dataset_name {directory} in its place, which datasets loads as images"
        raise Refusal(f"the script of {task.name} does not load a directory", f"--{flag} {directory}", remedy)


def check_reporters(task: Task, arguments: Mapping[str, object], stack: Stack, environ: Mapping[str, str]) -> None:
    """Raise Refusal for a report to what no package is there for: the Trainer says so after the data are prepared.

    A script without the Trainer reports only if it is told to track.
    """
    if task.kind != TRAINER and not is_true(find_argument(arguments, "with_tracking")):
        return
    names = [name for name in str(find_argument(arguments, "report_to", "")).split() if name not in NO_PACKAGES]
    installed = read_installed(list_sites(stack, environ)) if names else {}
    lacking = next((name for name in names if normalize(name) not in installed), None)
    if lacking is not None:
        remedy = f"pip install {normalize(lacking)} as USER root in an image FROM this one, or --report_to none"
        raise Refusal("this image has no package for what --report_to names", lacking, remedy)


def find_nltk(task: Task, environ: Mapping[str, str]) -> list[Setting]:
    """Return where `prefetch` has brought data of nltk, which a script evaluates with and does not download itself."""
    brought = f"{find_downloads(environ)}/nltk_data"
    return [Setting("NLTK_DATA", brought, "prefetch has been here")] if task.nltk and os.path.isdir(brought) else []


def list_tasks(stack: Stack) -> str:
    """Return a table of all tasks of the image, with script and defaults."""
    scripts = list_scripts(stack.examples)
    names = [*(name for name in TASKS if name in scripts), *(name for name in scripts if name not in TASKS)]
    width = max(map(len, [*names, "smoke"])) + 1
    lines = [f"{'smoke':{width}} a short training to see that all ranks work together, offline"]
    for name in names:
        task, script = find_task(name), scripts[name]
        flags = choose_defaults(list_defaults(task, stack, many=False), {}, task, stack)
        defaults = " ".join(quote(word) for flag in flags for word in flag.words())
        lines.append(f"{name:{width}} {task.about}".rstrip() + f"\n    {'/'.join(script.split('/')[-2:])} {defaults}")
    lines.append(f"examples: {stack.examples or 'none in this image: build it without --examples none'}")
    return "\n".join(lines)
