"""Metrics that are mounted: they go to where evaluate looks without a network.

Evaluate and datasets both take a directory of the working directory for what has its name, so a metric `squad` there
hides the data set `squad`. Evaluate alone looks into the cache of modules (evaluate/loading.py,
CachedEvaluationModuleFactory): metrics/evaluate-metric--NAME/HASH/NAME.py, with a hash of 64 digits.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from entrypoint.machine.files import name_aside
from entrypoint.machine.places import find_downloads
from entrypoint.printing.streams import quote

if TYPE_CHECKING:
    from collections.abc import Mapping


def place_metrics(environ: Mapping[str, str], directory: str) -> list[str]:
    """Copy every metric of a directory to the cache of modules; return a note where that cannot be written."""
    modules = environ.get("HF_MODULES_CACHE") or f"{find_downloads(environ)}/modules"
    place = Path(modules, "evaluate_modules", "metrics")
    try:
        for metric in sorted(Path(directory).glob("*/")):
            if (metric / f"{metric.name}.py").is_file():
                place_metric(metric, place)
    except OSError as error:
        remedy = "mount a cache that this user may write, or export HF_MODULES_CACHE=DIRECTORY"
        return [f"the metrics in {quote(directory)} are not used: {place}: {error.strerror}; {remedy}"]
    return []


def place_metric(metric: Path, modules: Path) -> None:
    """Copy a metric, whole or not at all, and make it the newest of its name: evaluate takes that one."""
    found = hashlib.sha256()
    sources = sorted(metric.glob("*.py"))
    for source in sources:
        found.update(f"{source.name} {source.stat().st_size}\n".encode() + source.read_bytes())
    place = modules / f"evaluate-metric--{metric.name}" / found.hexdigest()
    if not place.is_dir():
        aside = name_aside(str(place))
        os.makedirs(aside)
        try:
            for source in sources:
                shutil.copyfile(source, f"{aside}/{source.name}")
            os.rename(aside, place)
        except OSError:
            shutil.rmtree(aside, ignore_errors=True)
            if not place.is_dir():  # else another pod has written the same
                raise
    with contextlib.suppress(PermissionError):  # where another user has placed it
        os.utime(place / f"{metric.name}.py")
