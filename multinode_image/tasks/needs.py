"""What a task needs of its image, looked at before the start: packages for reports, and data of nltk."""

from __future__ import annotations

import os
from collections.abc import Mapping

from multinode_image.errors import Refusal
from multinode_image.machine.image import Stack, list_sites, normalize, read_installed
from multinode_image.machine.places import find_downloads
from multinode_image.numbers import is_true
from multinode_image.printing.streams import quote
from multinode_image.settings import Setting
from multinode_image.tasks.defaults import choose_defaults, list_defaults
from multinode_image.tasks.table import TASKS, TRAINER, Task, find_task, list_scripts

# What --report_to takes that is not the name of a package (transformers/integrations/integration_utils.py).
NO_PACKAGES = ("all", "none", "azure_ml", "flyte", "kubeflow")
# Tasks whose scripts have cifar10 for the name of a data set where no argument has another one.
OF_CIFAR10 = ("image-classification-no-trainer", "mae", "mim", "mim-no-trainer")


def check_arguments(task: Task, arguments: Mapping[str, object]) -> None:
    """Raise Refusal for arguments with which a task would train with other data."""
    flag = next((each for each in ("train_dir", "validation_dir") if arguments.get(each)), None)
    if flag and task.name in OF_CIFAR10 and not arguments.get("dataset_name"):
        remedy = f"--dataset_name {arguments[flag]} in its place, which datasets loads as images"
        raise Refusal(f"the script of {task.name} does not load a directory", f"--{flag} {arguments[flag]}", remedy)


def check_reporters(task: Task, arguments: Mapping[str, object], stack: Stack, environ: Mapping[str, str]) -> None:
    """Raise Refusal for a report to what no package is there for: the Trainer says so after the data are prepared.

    A script without the Trainer reports only if it is told to track.
    """
    if task.kind != TRAINER and not is_true(arguments.get("with_tracking")):
        return
    names = [name for name in str(arguments.get("report_to", "")).split() if name not in NO_PACKAGES]
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
