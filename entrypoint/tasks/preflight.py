"""What a task needs of its image, looked at before the start: its script, packages, integrations and data of nltk."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from entrypoint.errors import Refusal
from entrypoint.machine.files import read_file
from entrypoint.machine.image import (
    BESIDE_TORCH,
    TORCH_INDEX,
    find_version,
    list_packages,
    list_sites,
    normalize,
    release,
)
from entrypoint.machine.places import find_downloads
from entrypoint.numbers import is_true
from entrypoint.printing.streams import quote
from entrypoint.settings import Setting
from entrypoint.tasks.defaults import list_defaults
from entrypoint.tasks.table import ACCELERATE, TASKS, TRAINER, find_task, list_scripts, place_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from entrypoint.machine.image import Stack
    from entrypoint.tasks.table import Task

LIST = "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"
# What --report_to takes, and the packages of which it needs one (transformers/integrations/integration_utils.py). Any
# other name is that of its package.
REPORTERS = {
    "all": (),
    "none": (),
    "kubeflow": (),
    "azure_ml": ("azureml-core",),
    "comet_ml": ("comet-ml",),
    "flyte": ("flytekit",),
    "neptune": ("neptune", "neptune-client"),
    "tensorboard": ("tensorboard", "tensorboardx"),
}
# Tasks whose scripts have cifar10 for the name of a data set where no argument has another one.
OF_CIFAR10 = ("image-classification-no-trainer", "mae", "mim", "mim-no-trainer")
# From here on nltk reads punkt_tab in the place of punkt.
SINCE_TAB = (3, 8, 2)
NLTK_DATA = ("/usr/share/nltk_data", "/usr/local/share/nltk_data", "/usr/lib/nltk_data", "/usr/local/lib/nltk_data")


class Image:
    """What the scripts find in this image; Python itself is asked only for what is not where the image has its own."""

    def __init__(self, stack: Stack, environ: Mapping[str, str]) -> None:
        """List what the usual directories have."""
        self.stack, self.environ = stack, environ
        self.sites = list_sites(stack, environ)
        self.names = set(map(normalize, list_packages(self.sites)))
        self.asked = False

    def lacks(self, package: str) -> bool:
        """Return whether a package is not there."""
        if normalize(package) not in self.names and not self.asked:
            argv, self.asked = ["python3", "-c", LIST], True
            done = subprocess.run(argv, env={**self.environ}, capture_output=True, check=False)
            self.names |= set(map(normalize, done.stdout.decode(errors="replace").split()))
        return normalize(package) not in self.names


def check_image(task: Task, image: Image) -> str:
    """Return the path of a task's script; raise Refusal if that, or a package of its requirements, is not there."""
    script = place_script(task.name, image.stack)
    lacking = list_lacking(script, image)
    if lacking:
        text = f", or build it with all tasks for text: {image.stack.again}" if task.name in TASKS else ""
        remedy = f"{install(lacking)}{text}"
        raise Refusal(f"this image lacks requirements of {task.name}", ", ".join(lacking), remedy)
    return script


def check_given(task: Task, given: Mapping[str, object], image: Image) -> list[Setting]:
    """Raise Refusal for arguments with which a task would fail late; return variables that it needs."""
    check_reporters(task, given, image)
    check_directory(task, given)
    return find_nltk(task, given, image)


def list_lacking(script: str, image: Image) -> list[str]:
    """List the packages that the requirements.txt beside a script names and that are not there."""
    lines = (read_file(f"{os.path.dirname(script)}/requirements.txt") or "").splitlines()
    # A line with an address or a condition is left to pip.
    names = (match[0] for line in lines if (match := re.match(r"[A-Za-z0-9][\w.-]*(?!.*(?://|;))", line.strip())))
    return sorted({name for name in names if image.lacks(name)})


def warn_failing(task: Task, image: Image) -> list[str]:
    """Return a note on a script that was seen to fail with a package of the image, or to lose what it has trained."""
    if task.kind == TRAINER and not task.takes_checkpoint:
        return ["its script looks for checkpoints itself, and ignores --resume_from_checkpoint"]
    if task.fails is None:
        return []
    package, since, why = task.fails
    version = find_version(image.sites, package) or ""
    return [f"its script was seen to fail with {package} {version}: {why}"] if release(version) >= since else []


def install(names: Iterable[str]) -> str:
    """Return how to install packages for all users of an image; any but root would install into his own home."""
    index = f"--extra-index-url {TORCH_INDEX} " if {*BESIDE_TORCH, "timm"} & {*names} else ""
    return f"pip install {index}{' '.join(names)} as USER root in an image FROM this one"


def check_reporters(task: Task, given: Mapping[str, object], image: Image) -> None:
    """Raise Refusal for a report to what the image has no package of: it would fail when the data are prepared.

    A script without the Trainer reports only if it is told to track.
    """
    if task.kind != TRAINER and not is_true(given.get("with_tracking")):
        return
    value = given.get("report_to")
    names = value if isinstance(value, list) else value.split() if isinstance(value, str) else []
    for name in map(str, names):
        packages = REPORTERS.get(name, (name,))
        if packages and all(map(image.lacks, packages)):
            remedy = f"{install(packages[:1])}, or --report_to none"
            raise Refusal("this image has no package for what --report_to names", name, remedy)


def check_directory(task: Task, given: Mapping[str, object]) -> None:
    """Raise Refusal for a directory of images that a script would ignore, and train with its own data set."""
    flag = next((each for each in ("train_dir", "validation_dir") if given.get(each)), None)
    if flag and task.name in OF_CIFAR10 and not given.get("dataset_name"):
        remedy = f"--dataset_name {given[flag]} in its place, which datasets loads as images"
        raise Refusal(f"the script of {task.name} does not load a directory", f"--{flag} {given[flag]}", remedy)


def find_nltk(task: Task, given: Mapping[str, object], image: Image) -> list[Setting]:
    """Return where `prefetch` brought data of nltk; raise Refusal if the data with which a task evaluates are missing.

    A newer nltk reads other data than its script downloads (examples/pytorch/summarization): without them that fails as
    it evaluates for the first time, after an epoch.
    """
    if not task.nltk:
        return []
    own, brought = image.environ.get("NLTK_DATA", ""), f"{find_downloads(image.environ)}/nltk_data"
    places = [*filter(None, own.split(":")), brought, f"{image.environ.get('HOME', '')}/nltk_data", *NLTK_DATA]
    wanted = f"tokenizers/{task.nltk[-1]}"
    is_there = any(os.path.exists(f"{place}/{wanted}{end}") for place in places for end in ("", ".zip"))
    version = tuple(map(int, re.findall(r"\d+", find_version(image.sites, "nltk") or "")))
    evaluates = task.kind == ACCELERATE or is_true(given.get("predict_with_generate"))
    if version >= SINCE_TAB and evaluates and not is_there:
        remedy = f"run `prefetch {task.name}` with these arguments and a network, or mount a directory with {wanted} "
        remedy += "and export NLTK_DATA=DIRECTORY"
        raise Refusal(f"{task.name} evaluates with data of nltk that its script does not download", wanted, remedy)
    return [] if own or not os.path.isdir(brought) else [Setting("NLTK_DATA", brought, "prefetch has been here")]


def list_tasks(stack: Stack, environ: Mapping[str, str]) -> str:
    """Return a table of all tasks: those of the image with script and defaults, and with what the image lacks."""
    scripts, image = list_scripts(stack.examples), Image(stack, environ)
    names = [*(name for name in TASKS if name in scripts), *(name for name in scripts if name not in TASKS)]
    width = max(map(len, [*names, "smoke"])) + 1
    lines = [f"{'smoke':{width}} a short training to see that all ranks work together, offline"]
    for name in names:
        task, lacking = find_task(name), list_lacking(scripts[name], image)
        notes = [*([f"lacks {', '.join(lacking)}"] if lacking else []), *warn_failing(task, image)]
        about = f"{task.about} ({'; '.join(notes)})".strip() if notes else task.about
        flags = list_defaults(task, stack, many=False)
        defaults = " ".join(quote(word) for flag in flags for word in flag.words())
        place = "/".join(scripts[name].split("/")[-2:])
        lines.append(f"{name:{width}} {about}".rstrip() + f"\n    {place} {defaults}")
    lines.append(f"examples: {stack.examples or 'none in this image: build it with --examples'}")
    return "\n".join(lines)
