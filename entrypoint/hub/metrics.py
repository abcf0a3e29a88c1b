"""Metrics that are mounted: they go to where evaluate looks without a network.

Evaluate and datasets both take a directory of the working directory for what has its name, so a metric `squad` there
hides the data set `squad`. Evaluate alone looks into the cache of modules (evaluate/loading.py,
CachedEvaluationModuleFactory): metrics/evaluate-metric--NAME/HASH/NAME.py, with a hash of 64 digits.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from entrypoint.machine.files import name_aside
from entrypoint.machine.places import find_downloads
from entrypoint.printing.streams import quote

if TYPE_CHECKING:
    from collections.abc import Mapping


def find_modules(environ: Mapping[str, str]) -> str:
    """Return the directory of evaluate's modules (evaluate/config.py)."""
    modules = environ.get("HF_MODULES_CACHE") or f"{find_downloads(environ)}/modules"
    return f"{modules}/evaluate_modules/metrics"


def read_metrics(directory: str) -> dict[str, dict[str, bytes]]:
    """Return the Python files of every metric in a directory, by the name of the metric."""
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return {
        name: read_sources(f"{directory}/{name}") for name in names if os.path.isfile(f"{directory}/{name}/{name}.py")
    }


def read_sources(directory: str) -> dict[str, bytes]:
    """Return the Python files of a directory."""
    files = {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".py"):
            with open(f"{directory}/{name}", "rb") as file:
                files[name] = file.read()
    return files


def hash_sources(files: Mapping[str, bytes]) -> str:
    """Return a hash of 64 digits: evaluate takes no directory of another length."""
    import hashlib  # a container without metrics pays nothing for it

    found = hashlib.sha256()
    for name, data in files.items():
        found.update(f"{name} {len(data)}\n".encode() + data)
    return found.hexdigest()


def place_metric(name: str, files: Mapping[str, bytes], modules: str) -> None:
    """Write a metric where evaluate finds it, whole or not at all, and make it the newest of its name."""
    place = f"{modules}/evaluate-metric--{name}/{hash_sources(files)}"
    if not os.path.isdir(place):
        aside = name_aside(place)
        try:
            os.makedirs(aside)
            for each, data in files.items():
                with open(f"{aside}/{each}", "wb") as file:
                    file.write(data)
            os.rename(aside, place)
        except OSError:
            shutil.rmtree(aside, ignore_errors=True)
            if not os.path.isdir(place):  # else another pod has written the same
                raise
    # Evaluate takes the one that was written last, which may be another that came from the hub.
    with contextlib.suppress(PermissionError):  # where another user has placed it
        os.utime(f"{place}/{name}.py")


def place_metrics(environ: Mapping[str, str], directory: str) -> list[str]:
    """Write the mounted metrics to the cache of modules; return a note where that cannot be written."""
    modules = find_modules(environ)
    try:
        for name, files in read_metrics(directory).items():
            place_metric(name, files, modules)
    except OSError as error:
        remedy = "mount a cache that this user may write, or export HF_MODULES_CACHE=DIRECTORY"
        return [f"the metrics in {quote(directory)} are not used: {modules}: {error.strerror}; {remedy}"]
    return []
