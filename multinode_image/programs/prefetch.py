"""Bring what a task needs into the cache, so that it runs with HF_HUB_OFFLINE=1 and without a network.

It says on stderr what it fetches, and on stdout at the end where that is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping

from multinode_image.errors import EXIT_OUTSIDE, Refusal
from multinode_image.machine.places import find_downloads
from multinode_image.printing.streams import print_error, print_output
from multinode_image.tasks.prefetch import DATASET, FILES, METRIC, NLTK, WEIGHTS, Wanted

# How files of weights end, of any framework; of these only those in PREFERRED and adapters are fetched.
OF_WEIGHTS = ".safetensors .bin .pt .pth .h5 .msgpack .ot .onnx .gguf .tflite .ckpt .npz"
# As transformers prefers them (transformers/modeling_utils.py): the beginning of the name, and its end.
PREFERRED = (("model", ".safetensors"), ("pytorch_model", ".bin"))
# A log has no use for bars; the libraries read these at their import.
BARS = ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS", "TQDM_DISABLE")
AGAIN = "run it again: what is in the cache already is kept"


def main(argv: list[str], environ: Mapping[str, str], root: str) -> int:
    """Fetch everything in the plan, the only argument; return 0, or the exit code of what cannot be had."""
    for name in BARS if not sys.stderr.isatty() else ():
        os.environ.setdefault(name, "1")
    plan = json.loads(argv[0])
    try:
        for row in plan["wanted"]:
            fetch(Wanted(*row), environ)
        print_output(f"prefetch: {describe_end(plan['task'], ' and '.join(plan['caches']), whole=plan['whole'])}")
    except Refusal as refusal:
        print_error(refusal)
        return refusal.code
    except KeyboardInterrupt:
        return 130
    return 0


def describe_end(task: str, caches: str, *, whole: bool) -> str:
    """Return where the task is, by its caches; whole: all that it loads is known, so that it needs no network."""
    if whole:
        return f"{task} is in {caches}; it runs with HF_HUB_OFFLINE=1"
    return f"model and data of {task} are in {caches}; run it once with a network for a metric or more that it loads"


def fetch(wanted: Wanted, environ: Mapping[str, str]) -> None:
    """Fetch one thing; raise Refusal if that cannot be had."""
    print_error(f"prefetch: {wanted.text}")
    try:
        return FETCH[wanted.kind](wanted, environ)
    except Refusal:
        raise
    except Exception as error:  # of several libraries, whose errors have no common base
        failed = error
    # Outside of the handler, so that what follows has not the first error as its context.
    raise explain(failed, wanted.text, environ.get("HF_ENDPOINT") or "https://huggingface.co")


def explain(error: BaseException, what: str, endpoint: str) -> Refusal:
    """Return the message for an error of a library; what: kind and name of what was fetched."""
    value = f"{what} from {endpoint}: {type(error).__name__}: {' '.join(str(error).split())}"
    check = "check name, configuration and revision, the network, the proxy, HF_ENDPOINT and the room at HF_HOME"
    remedy = f"{check}; for a gated or private one ask for access there, and export HF_TOKEN; then {AGAIN}"
    return Refusal("it cannot be fetched", value, remedy, EXIT_OUTSIDE)


def choose_files(names: Iterable[str], *, weights: bool) -> list[str]:
    """Return the files of a model that the examples read: all small ones on top, and one form of the weights."""
    top = [name for name in names if "/" not in name]
    small = [name for name in top if not name.endswith(tuple(OF_WEIGHTS.split()))]
    if not weights:
        return small
    forms = ([name for name in top if name.startswith(start) and name.endswith(end)] for start, end in PREFERRED)
    adapter = [name for name in top if name.startswith("adapter_model") and name not in small]
    return [*small, *next(filter(None, forms), []), *adapter]


def fetch_model(wanted: Wanted, environ: Mapping[str, str]) -> None:
    """Bring a model's files into the cache of the hub."""
    from huggingface_hub import HfApi, snapshot_download

    info = HfApi().model_info(wanted.name, revision=wanted.revision)
    names = [file.rfilename for file in info.siblings or []]
    chosen = choose_files(names, weights=wanted.kind == WEIGHTS)
    snapshot_download(wanted.name, revision=wanted.revision, cache_dir=wanted.cache, allow_patterns=chosen)


def fetch_dataset(wanted: Wanted, environ: Mapping[str, str]) -> None:
    """Download a data set and convert it as the scripts do: offline they read only what was converted."""
    import datasets

    datasets.load_dataset(wanted.name, wanted.config, cache_dir=wanted.cache)


def fetch_metric(wanted: Wanted, environ: Mapping[str, str]) -> None:
    """Bring a metric into the cache of modules, where evaluate finds it offline."""
    import evaluate

    if not sys.stderr.isatty():
        evaluate.utils.logging.disable_progress_bar()
    evaluate.load(wanted.name, wanted.config, cache_dir=wanted.cache)


def fetch_nltk(wanted: Wanted, environ: Mapping[str, str]) -> None:
    """Download data of nltk, which the entrypoint gives to the task by NLTK_DATA."""
    place = environ.get("NLTK_DATA", "").split(os.pathsep)[0] or f"{find_downloads(environ)}/nltk_data"
    os.makedirs(place, exist_ok=True)
    os.environ["NLTK_DATA"] = place  # nltk writes nowhere else since 3.9.3, and reads this at its import
    import nltk

    if not nltk.download(wanted.name, download_dir=place, quiet=True):
        value = f"{wanted.name} from {nltk.downloader.Downloader.DEFAULT_URL}"
        raise Refusal("data of nltk cannot be fetched", value, f"check the network, then {AGAIN}", EXIT_OUTSIDE)


FETCH: dict[str, Callable[[Wanted, "Mapping[str, str]"], None]] = {
    FILES: fetch_model,
    WEIGHTS: fetch_model,
    DATASET: fetch_dataset,
    METRIC: fetch_metric,
    NLTK: fetch_nltk,
}
