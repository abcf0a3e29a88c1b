"""The data of a task: data sets that this release of datasets does not load, and what nltk reads beside them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from entrypoint.errors import Refusal
from entrypoint.machine.image import release
from entrypoint.machine.places import find_data_sets, find_downloads
from entrypoint.needs.packages import FROM_THIS, NEEDS, OLDER_DATASETS
from entrypoint.numbers import is_true
from entrypoint.settings import Setting
from entrypoint.tasks.task import ACCELERATE
from entrypoint.tasks.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from entrypoint.machine.places import Exists

# Data sets that are scripts, which datasets loads no more, and the same data without one, where it is known: conll2003
# (stanfordnlp/dspy#9889), superb (huggingface/datasets#7693), coco by its own name.
SCRIPTS = {"conll2003": "lhoestq/conll2003", "superb": "", "ydshieh/coco_dataset_script": ""}
# How the names of data sets begin that the hub has no more, or has without files: Mozilla has moved its data sets to
# its own Data Collective (zoeyada/ALMs4Learning#1, dscripka/openWakeWord#298, mozilla-ai/speech-to-text-finetune#87).
GONE = "mozilla-foundation/common_voice_"
HUB = ("", "https://huggingface.co")
WITHOUT_SCRIPTS = (4, 0)
# Tasks whose scripts have cifar10 for the name of a data set, and so never load a directory of images by itself: those
# of image-pretraining look for files of cifar10 in it, the other does not look into it.
OF_CIFAR10 = ("image-classification-no-trainer", "mae", "mim", "mim-no-trainer")
# Its script takes the names of the classes from the training data alone, and no directory beside a data set.
OF_CLASSES = "image-classification"
# What the scripts of a directory look for at their import, and download (examples/pytorch/summarization); and what nltk
# finds sentences with since a release, for which they ask when they evaluate (nltk/tokenize/punkt.py).
PUNKT, TAB, SINCE_TAB = "tokenizers/punkt", "tokenizers/punkt_tab", [3, 8, 2]
NLTK_DATA = ("/usr/share/nltk_data", "/usr/local/share/nltk_data", "/usr/lib/nltk_data", "/usr/local/lib/nltk_data")
# What switches a variable of the hub's libraries on (huggingface_hub/constants.py, ENV_VARS_TRUE_VALUES).
SWITCHES_ON = ("1", "ON", "YES", "TRUE")


def check_data(
    name: str, given: Mapping[str, object], version: str | None, environ: Mapping[str, str], exists: Exists
) -> None:
    """Raise Refusal for data that a task or this release of datasets does not load or find; exists: for paths."""
    check_directory(name, given)
    if environ.get("HF_ENDPOINT", "").rstrip("/") in HUB:  # another one may still have it
        check_gone(given, find_data_sets(environ), exists)
    check_dataset(given, version, exists)
    check_hidden(given, version, exists)


def check_directory(name: str, given: Mapping[str, object]) -> None:
    """Raise Refusal for a directory of images alone, beside which these scripts keep to their own cifar10.

    Or for one that a script would ignore, or end on with a KeyError.
    """
    flag = next((each for each in ("train_dir", "validation_dir") if given.get(each)), None)
    if flag and name in OF_CIFAR10 and not given.get("dataset_name"):
        remedy = f"--dataset_name {given[flag]} in its place, which datasets loads as images"
        raise Refusal(f"the script of {name} does not load a directory of images", f"--{flag} {given[flag]}", remedy)
    if name == OF_CLASSES and flag == "validation_dir":
        remedy = "--train_dir DIRECTORY beside it, with the same classes, and no --dataset_name"
        value = f"--{flag} {given[flag]}"
        raise Refusal(f"the script of {name} loads no directory for validation without one for training", value, remedy)


def check_gone(given: Mapping[str, object], cache: str, exists: Exists) -> None:
    """Raise Refusal for a data set that has gone from the hub, and is neither a directory here nor in the cache.

    There the place of a data set is called OWNER___NAME (datasets/builder.py, _relative_data_dir).
    """
    name = str(given.get("dataset_name", ""))
    places = [place for place in (given.get("cache_dir"), cache) if place]  # not every script gives datasets the first
    kept = any(exists(f"{place}/{name.replace('/', '___')}") for place in places)
    if not name.startswith(GONE) or exists(name) or kept:
        return
    remedy = "--dataset_name NAME of another one, with its --dataset_config_name and the names of its columns"
    raise Refusal("this data set is no longer on the hub: Mozilla gives it out itself", name, remedy)


def check_dataset(given: Mapping[str, object], version: str | None, exists: Exists) -> None:
    """Raise Refusal for a data set that the installed release of datasets cannot load; exists: whether a path does."""
    name = str(given.get("dataset_name", ""))
    if name not in SCRIPTS or version is None or release(version) < WITHOUT_SCRIPTS or exists(name):
        return
    other = SCRIPTS[name] or "NAME of one in Parquet, with its columns"
    remedy = f"--dataset_name {other}, or PIP_CONSTRAINT= pip install {' '.join(OLDER_DATASETS)} {FROM_THIS}"
    raise Refusal("this release of datasets loads no data set that is a script", f"{name}, datasets {version}", remedy)


def check_hidden(given: Mapping[str, object], version: str | None, exists: Exists) -> None:
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


def check_nltk(name: str, wanted: Mapping[str, bool], environ: Mapping[str, str], exists: Exists) -> list[str]:
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


def find_nltk(name: str, environ: Mapping[str, str], exists: Exists) -> list[Setting]:
    """Return where `prefetch` brought data of nltk, as a variable; empty if the user names a place or none is there."""
    place = f"{find_downloads(environ)}/nltk_data"
    wants = "nltk" in NEEDS[TASKS[name].directory] and not environ.get("NLTK_DATA")
    return [Setting("NLTK_DATA", place, "prefetch has been here")] if wants and exists(place) else []


def find_switched_on(environ: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return the first of these variables that switches something on in the hub's libraries."""
    return next((name for name in names if environ.get(name, "").upper() in SWITCHES_ON), None)
