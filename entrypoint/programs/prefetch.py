"""Bring what a task needs into the cache, so that it runs with HF_HUB_OFFLINE=1 and without a network.

It says on stderr what it fetches, and on stdout at the end where that is.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Callable

from entrypoint.errors import WORLD, Refusal
from entrypoint.hub.wanted import DATASET, FILES, METRIC, NLTK, WEIGHTS, Wanted
from entrypoint.machine.places import find_downloads
from entrypoint.printing.streams import print_error, print_output
from entrypoint.programs.hub_errors import AGAIN, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# How files of weights end, of any framework; of these only those in PREFERRED and adapters are fetched.
OF_WEIGHTS = (
    ".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".ot", ".onnx", ".gguf", ".tflite", ".ckpt", ".npz",
)  # fmt: skip
# As transformers prefers them (transformers/modeling_utils.py): the beginning of the name, and its end.
PREFERRED = (("model", ".safetensors"), ("pytorch_model", ".bin"))
NLTK_DATA = "nltk_data"
# What the hub calls the repositories of data sets and metrics.
REPOSITORIES = {DATASET: "dataset", METRIC: "space"}
# A log has no use for bars; the libraries read these at their import.
BARS = ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS", "TQDM_DISABLE")


def main(argv: list[str], environ: Mapping[str, str], root: str) -> int:
    """Fetch everything in the plan, the only argument; return 0, or the exit code of what cannot be had."""
    for name in BARS if not sys.stderr.isatty() else ():
        os.environ.setdefault(name, "1")
    plan = json.loads(argv[0])
    home = find_downloads(environ)
    try:
        for each in plan["wanted"]:
            fetch(Wanted(**each), environ, home)
        print_output(f"prefetch: {describe_end(plan['task'], ' and '.join(plan['caches']), whole=plan['whole'])}")
    except Refusal as refusal:
        print_error(refusal)
        return refusal.code
    except KeyboardInterrupt:
        return 130
    return 0


def describe_end(task: str, caches: str, *, whole: bool) -> str:
    """Return where the task is, by its caches; whole: nothing that it loads is missing, so that it needs no network."""
    if whole:
        return f"{task} is in {caches}; it runs with HF_HUB_OFFLINE=1"
    return f"a part of {task} is in {caches}; run it once with a network for what the notes say is not fetched"


def fetch(wanted: Wanted, environ: Mapping[str, str], home: str) -> None:
    """Fetch one thing; raise Refusal if that cannot be had."""
    print_error(f"prefetch: {wanted.text}")
    try:
        return FETCH[wanted.kind](wanted, home)
    except Refusal:
        raise
    except Exception as error:  # of several libraries, whose errors have no common base
        failed = error
    # Outside of the handler, so that what follows has not the first error as its context.
    endpoint = environ.get("HF_ENDPOINT") or "https://huggingface.co"
    raise explain(ask(wanted) or failed, wanted.text, endpoint, token=has_token())


def ask(wanted: Wanted) -> Exception | None:
    """Return the error of the hub itself for a repository, which datasets and evaluate hide; None if it shows it."""
    from huggingface_hub import HfApi

    kind = REPOSITORIES.get(wanted.kind)
    own = kind == "space" and "/" not in wanted.name
    try:
        if kind:
            HfApi().repo_info(f"evaluate-metric/{wanted.name}" if own else wanted.name, repo_type=kind)
    except Exception as error:  # as in fetch
        return error
    return None


def has_token() -> bool:
    """Return whether the hub is asked with a token: from a variable, or from a file that a login left."""
    from huggingface_hub import get_token

    return bool(get_token())


def choose_files(names: Iterable[str], *, weights: bool) -> list[str]:
    """Return the files of a model that the examples read: all small ones on top, and one form of the weights."""
    top = [name for name in names if "/" not in name]
    small = [name for name in top if not name.endswith(OF_WEIGHTS)]
    if not weights:
        return small
    forms = ([name for name in top if name.startswith(start) and name.endswith(end)] for start, end in PREFERRED)
    adapter = [name for name in top if name.startswith("adapter_model") and name.endswith(OF_WEIGHTS)]
    return [*small, *next(filter(None, forms), []), *adapter]


def fetch_model(wanted: Wanted, home: str) -> None:
    """Bring a model's files into the cache of the hub."""
    from huggingface_hub import HfApi, snapshot_download

    found = HfApi().model_info(wanted.name, revision=wanted.revision)
    names = [each.rfilename for each in found.siblings or []]
    chosen = choose_files(names, weights=wanted.kind == WEIGHTS)
    snapshot_download(wanted.name, revision=wanted.revision, cache_dir=wanted.cache, allow_patterns=chosen)


def fetch_dataset(wanted: Wanted, home: str) -> None:
    """Download a data set and convert it as the scripts do: offline they read only what was converted."""
    import datasets

    datasets.load_dataset(wanted.name, wanted.config, revision=wanted.revision, cache_dir=wanted.cache)


def fetch_metric(wanted: Wanted, home: str) -> None:
    """Bring a metric into the cache of modules, where evaluate finds it offline."""
    import evaluate

    if not sys.stderr.isatty():
        evaluate.utils.logging.disable_progress_bar()
    evaluate.load(wanted.name, wanted.config, cache_dir=wanted.cache)


def fetch_nltk(wanted: Wanted, home: str) -> None:
    """Download data of nltk, which the entrypoint gives to the task by NLTK_DATA."""
    place = os.environ.get("NLTK_DATA", "").split(os.pathsep)[0] or os.path.join(home, NLTK_DATA)
    os.makedirs(place, exist_ok=True)
    os.environ["NLTK_DATA"] = place  # nltk writes nowhere else since 3.9.3, and reads this at its import
    import nltk

    if not nltk.download(wanted.name, download_dir=place, quiet=True):
        url = nltk.downloader.Downloader.DEFAULT_URL
        remedy = f"check the network, then {AGAIN}"
        raise Refusal("data of nltk cannot be fetched", f"{wanted.name} from {url}", remedy, WORLD)


FETCH: dict[str, Callable[[Wanted, str], None]] = {
    FILES: fetch_model, WEIGHTS: fetch_model, DATASET: fetch_dataset, METRIC: fetch_metric, NLTK: fetch_nltk,
}  # fmt: skip
