"""Whether a task can run in this image: its script is there, and the packages that the script imports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable

from entrypoint.container.files import read_file
from entrypoint.container.image import (
    CODEC,
    FROM_THIS,
    find_version,
    install,
    list_packages,
    list_sites,
    normalize,
    release,
)
from entrypoint.container.places import find_downloads
from entrypoint.errors import Refusal
from entrypoint.faults.scripts import find_flaws
from entrypoint.numbers import is_true
from entrypoint.settings import Setting
from entrypoint.training.task import ACCELERATE
from entrypoint.training.tasks import NEEDS, TASKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from entrypoint.container.image import Stack
    from entrypoint.training.task import Task

DIRECTORY = "examples/pytorch"
# The directories whose packages the builder can put in; a test holds this against images/versions.toml.
BUILT = (
    "language-modeling", "multiple-choice", "question-answering", "summarization", "text-classification",
    "text-generation", "token-classification", "translation",
)  # fmt: skip

LIST = "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()))"

# Data sets that are scripts, which datasets loads no more, and the same data without one, where it is known: conll2003
# (stanfordnlp/dspy#9889), superb (huggingface/datasets#7693), coco by its own name, common_voice
# (huggingface/datasets#7675 and NVIDIA-NeMo/Speech#14596).
SCRIPTS = {
    "conll2003": "lhoestq/conll2003", "superb": "", "ydshieh/coco_dataset_script": "",
    "mozilla-foundation/common_voice_11_0": "", "mozilla-foundation/common_voice_17_0": "",
}  # fmt: skip
WITHOUT_SCRIPTS = (4, 0)
# The directories whose data are sound, which datasets decodes with torchcodec since then (datasets/features/audio.py).
SOUND = ("audio-classification", "speech-pretraining", "speech-recognition")
# What the scripts of a directory look for at their import, and download (examples/pytorch/summarization); and what nltk
# finds sentences with since a release, for which they ask when they evaluate (nltk/tokenize/punkt.py).
PUNKT, TAB, SINCE_TAB = "tokenizers/punkt", "tokenizers/punkt_tab", [3, 8, 2]
NLTK_DATA = ("/usr/share/nltk_data", "/usr/local/share/nltk_data", "/usr/lib/nltk_data", "/usr/local/lib/nltk_data")

# What switches a variable of the hub's libraries on (huggingface_hub/constants.py, ENV_VARS_TRUE_VALUES).
SWITCHES_ON = ("1", "ON", "YES", "TRUE")

# Names of installed packages.
Ask = Callable[[], "Iterable[str]"]


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


def check_image(name: str, stack: Stack, environ: Mapping[str, str]) -> str:
    """Return the source of a task's script; raise Refusal if that or a package it needs is not there, or they clash."""
    path = find_script(name, TASKS[name], stack)
    source = read_source(path)
    sites = list_sites(stack, environ)
    check_needs(name, stack, find_version(sites, "datasets"), lambda: list_packages(sites), lambda: ask_python(environ))
    check_flaws(name, path, source, sites)
    return source


def read_source(path: str) -> str:
    """Return the source of a task's script; raise Refusal for one that the examples of the image do not have."""
    source = read_file(path)
    if source is None:
        above = path.partition(f"/{DIRECTORY}/")[0]
        remedy = f"mount examples with that script at {above}, or build the image with --examples and their directory"
        raise Refusal("the examples in this image do not have the script of the task", path, remedy)
    return source


def check_flaws(name: str, path: str, source: str, sites: Sequence[str]) -> None:
    """Raise Refusal for a task whose script fails with the packages of the image, after minutes of loading."""
    flaws = list(find_flaws(source, lambda package: find_version(sites, package)))
    if not flaws:
        return
    found = "; ".join(f"{flaw.text} with {package}" for flaw, package in flaws)
    instead = "; ".join(flaw.instead for flaw, _ in flaws)
    remedy = f"a copy of it with {instead}, mounted at {path}; or an image with another --transformers"
    raise Refusal(f"the script of {name} is known to fail in this image", found, remedy)


def check_needs(name: str, stack: Stack, datasets: str | None, quick: Ask, sure: Ask) -> None:
    """Raise Refusal for a task whose packages are not in the image, before minutes of loading.

    datasets: its release; quick: the packages of the image; sure: all that Python would find, asked only if one is not
    among the first.
    """
    task = TASKS[name]
    lacking = list_lacking(task, datasets, quick) and list_lacking(task, datasets, sure)
    if lacking:
        remedy = install(lacking, stack.torch)
        if task.directory in BUILT:
            remedy = f"build it with all tasks for text: {stack.again}"
        raise Refusal(f"this image has no requirements for {name}, it lacks", ", ".join(lacking), remedy)


def check_data(name: str, given: Mapping[str, object], version: str | None, exists: Callable[[str], bool]) -> None:
    """Raise Refusal for data that a task or this release of datasets does not load or find; exists: for paths."""
    check_directory(name, given)
    check_dataset(given, version, exists)
    check_hidden(given, version, exists)


def check_directory(name: str, given: Mapping[str, object]) -> None:
    """Raise Refusal for a directory of images alone, in which these scripts look for files of their own cifar10."""
    flag = next((each for each in ("train_dir", "validation_dir") if given.get(each)), None)
    if flag and TASKS[name].directory == "image-pretraining" and not given.get("dataset_name"):
        remedy = f"--dataset_name {given[flag]} in its place, which datasets loads as images"
        raise Refusal(f"the script of {name} does not load a directory of images", f"--{flag} {given[flag]}", remedy)


def check_dataset(given: Mapping[str, object], version: str | None, exists: Callable[[str], bool]) -> None:
    """Raise Refusal for a data set that the installed release of datasets cannot load; exists: whether a path does."""
    name = str(given.get("dataset_name", ""))
    if name not in SCRIPTS or version is None or release(version) < WITHOUT_SCRIPTS or exists(name):
        return
    other = SCRIPTS[name] or "NAME of one in Parquet, with its columns"
    remedy = f"--dataset_name {other}, or PIP_CONSTRAINT= pip install 'datasets<4' {FROM_THIS}"
    raise Refusal("this release of datasets loads no data set that is a script", f"{name}, datasets {version}", remedy)


def check_hidden(given: Mapping[str, object], version: str | None, exists: Callable[[str], bool]) -> None:
    """Raise Refusal if a script lies where datasets looks for the data set first: a metric may have the same name."""
    name = str(given.get("dataset_name", "")).rstrip("/")
    script = f"{name}/{os.path.basename(name)}.py"
    if not name or version is None or release(version) < WITHOUT_SCRIPTS or not exists(script):
        return
    remedy = f"mount a metric as /workspace/metrics/{os.path.basename(name)}, or give --dataset_name OWNER/NAME"
    raise Refusal("this script hides the data set of its name", f"{script}, datasets {version}", remedy)


def list_nltk(name: str, source: str, given: Mapping[str, object], version: str | None) -> dict[str, bool]:
    """List the data of nltk that a task reads, with whether its script downloads them; version: that of nltk."""
    if "nltk" not in NEEDS[TASKS[name].directory]:
        return {}
    texts = {PUNKT: source.replace("punkt_tab", ""), TAB: source}
    found = {each: True for each, text in texts.items() if os.path.basename(each) in text}
    evaluates = TASKS[name].kind == ACCELERATE or is_true(given.get("predict_with_generate"))
    new = version is None or [int(part) for part in version.split(".") if part.isdigit()] >= SINCE_TAB
    return {TAB: False, **found} if evaluates and new else found


def check_nltk(
    name: str, wanted: Mapping[str, bool], environ: Mapping[str, str], exists: Callable[[str], bool]
) -> list[str]:
    """Return a note for a task that downloads data of nltk at its start; raise Refusal if it may not, or does not."""
    own = [*environ.get("NLTK_DATA", "").split(":"), f"{environ.get('HOME', '')}/nltk_data"]
    places = [(place, end) for place in (*filter(None, own), *NLTK_DATA) for end in ("", ".zip")]
    missing = sorted(each for each in wanted if not any(exists(f"{place}/{each}{end}") for place, end in places))
    if not missing:
        return []
    remedy = f"run `prefetch {name}` with these arguments and a network, or mount a directory with "
    remedy += f"{' and '.join(sorted(wanted))} and export NLTK_DATA=DIRECTORY"
    off = find_switched_on(environ, ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    if off:
        value = f"{', '.join(missing)}, {off}={environ[off]}"
        raise Refusal(f"{name} needs data of nltk, and may not download them", value, remedy)
    if not all(wanted[each] for each in missing):
        value = ", ".join(each for each in missing if not wanted[each])
        raise Refusal(f"{name} evaluates with data of nltk that its script does not download", value, remedy)
    return [f"{name} downloads {' and '.join(missing)} of nltk at its start; without a network, {remedy}"]


def find_nltk(name: str, environ: Mapping[str, str], exists: Callable[[str], bool]) -> list[Setting]:
    """Return where `prefetch` brought data of nltk, as a variable; empty if the user names a place or none is there."""
    place = f"{find_downloads(environ)}/nltk_data"
    wants = "nltk" in NEEDS[TASKS[name].directory] and not environ.get("NLTK_DATA")
    return [Setting("NLTK_DATA", place, "prefetch has been here")] if wants and exists(place) else []


def find_switched_on(environ: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return the first of these variables that switches something on in the hub's libraries."""
    return next((name for name in names if environ.get(name, "").upper() in SWITCHES_ON), None)


def list_lacking(task: Task, datasets: str | None, ask: Ask) -> list[str]:
    """List the packages that a task imports and the image does not have; datasets: its release."""
    there = {normalize(name) for name in ask()}
    decodes = task.directory in SOUND and "datasets" in there and release(datasets or "") >= WITHOUT_SCRIPTS
    return [name for name in (*NEEDS[task.directory], *[CODEC] * decodes) if name not in there]


def ask_python(environ: Mapping[str, str]) -> list[str]:
    """List the packages that the scripts' Python finds; the entrypoint itself runs without any."""
    import subprocess  # only a package that is not in the image's own directory pays for it

    argv = ["python3", "-c", LIST]
    done = subprocess.run(argv, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode(errors="replace").split()


def say_script(task: Task, stack: Stack, sites: Sequence[str]) -> str:
    """Return what is wrong with the script of a task; empty if nothing is, or if the image has no examples."""
    source = read_file(f"{stack.examples}/{DIRECTORY}/{task.script}")
    if source is None:
        return "lacks its script" if stack.examples else ""
    flaws = find_flaws(source, lambda package: find_version(sites, package))
    packages = ", ".join(package for _, package in flaws)
    return f"fails with {packages}" if packages else ""


def list_tasks(stack: Stack, sites: Sequence[str], ask: Ask) -> str:
    """Return a table of all tasks, with script, defaults and whether they can run here; sites: as in list_sites."""
    from entrypoint.streams import quote
    from entrypoint.training.arguments import list_defaults

    there, datasets = list(ask()), find_version(sites, "datasets")
    width = max(map(len, TASKS)) + 1
    lines = [f"{'smoke':{width}} a short training to see that all ranks work together, offline"]
    for name, task in TASKS.items():
        flags = list_defaults(name, task, stack, many=False)
        defaults = " ".join(quote(word) for flag in flags for word in flag.words())
        lacking = list_lacking(task, datasets, lambda: there)
        late = release(stack.transformers) < task.since
        why = f"needs transformers {'.'.join(map(str, task.since))}" if late else f"lacks {', '.join(lacking)}"
        why = why if late or lacking else say_script(task, stack, sites)
        about = f"{task.about} ({why})" if why else task.about
        lines.append(f"{name:{width}} {about}\n    {task.script} {defaults}")
    lines.append(f"examples: {stack.examples or 'none in this image: build it with --examples'}")
    return "\n".join(lines)
