"""What a task needs of its image, looked at before the start: its script, packages, integrations and data of nltk."""

from __future__ import annotations

import os
from collections.abc import Mapping

from entrypoint.errors import Refusal
from entrypoint.machine.image import Stack, list_sites, normalize, read_installed
from entrypoint.machine.places import find_downloads
from entrypoint.numbers import is_true
from entrypoint.printing.streams import quote
from entrypoint.settings import Setting
from entrypoint.tasks.defaults import choose_defaults, list_defaults
from entrypoint.tasks.table import ACCELERATE, TASKS, TRAINER, Task, find_task, list_scripts

# The packages that --report_to needs, one of them is enough (transformers/integrations/integration_utils.py); any other
# name is that of its package.
REPORTERS = {
    **dict.fromkeys(("all", "none", "kubeflow"), ()),
    "azure_ml": ("azureml-core",),
    "comet_ml": ("comet-ml",),
    "flyte": ("flytekit",),
    "neptune": ("neptune", "neptune-client"),
    "tensorboard": ("tensorboard", "tensorboardx"),
}
# Tasks whose scripts have cifar10 for the name of a data set where no argument has another one.
OF_CIFAR10 = ("image-classification-no-trainer", "mae", "mim", "mim-no-trainer")
NLTK_DATA = ("/usr/share/nltk_data", "/usr/local/share/nltk_data", "/usr/lib/nltk_data", "/usr/local/lib/nltk_data")


def check_arguments(task: Task, arguments: Mapping[str, object], environ: Mapping[str, str]) -> list[Setting]:
    """Raise Refusal for arguments with which a task would fail late, or train with other data; return its variables."""
    flag = next((each for each in ("train_dir", "validation_dir") if arguments.get(each)), None)
    if flag and task.name in OF_CIFAR10 and not arguments.get("dataset_name"):
        remedy = f"--dataset_name {arguments[flag]} in its place, which datasets loads as images"
        raise Refusal(f"the script of {task.name} does not load a directory", f"--{flag} {arguments[flag]}", remedy)
    return find_nltk(task, arguments, environ) if task.nltk else []


def check_reporters(task: Task, arguments: Mapping[str, object], stack: Stack, environ: Mapping[str, str]) -> None:
    """Raise Refusal for a report to what no package is there for: the Trainer says so after the data are prepared.

    A script without the Trainer reports only if it is told to track.
    """
    if task.kind != TRAINER and not is_true(arguments.get("with_tracking")):
        return
    installed = read_installed(list_sites(stack, environ))
    for name in str(arguments.get("report_to", "")).split():
        packages = REPORTERS.get(name, (name,))
        if packages and installed.keys().isdisjoint(map(normalize, packages)):
            remedy = f"pip install {packages[0]} as USER root in an image FROM this one, or --report_to none"
            raise Refusal("this image has no package for what --report_to names", name, remedy)


def find_nltk(task: Task, arguments: Mapping[str, object], environ: Mapping[str, str]) -> list[Setting]:
    """Return where `prefetch` brought data of nltk; raise Refusal if the data with which a task evaluates are missing.

    The script downloads those of an older nltk (examples/pytorch/summarization), and fails with a newer one as it
    evaluates for the first time, after an epoch.
    """
    own, brought = environ.get("NLTK_DATA", ""), f"{find_downloads(environ)}/nltk_data"
    places = [*filter(None, own.split(":")), brought, f"{environ.get('HOME', '')}/nltk_data", *NLTK_DATA]
    wanted = [f"tokenizers/{name}" for name in task.nltk]
    is_there = any(os.path.exists(f"{place}/{wanted[-1]}{end}") for place in places for end in ("", ".zip"))
    evaluates = task.kind == ACCELERATE or is_true(arguments.get("predict_with_generate"))
    if evaluates and not is_there:
        remedy = (
            f"run `prefetch {task.name}` with these arguments and a network, or mount a directory with {wanted[-1]} "
        )
        remedy += "and export NLTK_DATA=DIRECTORY"
        raise Refusal(f"{task.name} evaluates with data of nltk that its script does not download", wanted[-1], remedy)
    return [] if own or not os.path.isdir(brought) else [Setting("NLTK_DATA", brought, "prefetch has been here")]


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
    lines.append(f"examples: {stack.examples or 'none in this image: build it with --examples'}")
    return "\n".join(lines)
