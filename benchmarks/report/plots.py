"""Plots of the curves, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from images.host.errors import UserFault

NAME = "benchmarks-store.png"
SETTINGS: Any = {"figure.figsize": (8, 3.2), "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def draw(parts: Mapping[str, Any], directory: Path) -> list[Path]:
    """Draw what has a curve into a directory; return the files.

    Raises UserFault when there is something to draw and no matplotlib.
    """
    curve = parts.get("store", {}).get("facts", {}).get("curve", [])
    if len(curve) < 2:
        return []
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UserFault("a Python package is missing", error.name, "pip install -e '.[benchmarks]'") from error
    with rc_context(SETTINGS):
        figure = Figure(layout="constrained")
        disk, seconds = figure.subplots(1, 2)
        counts = [row[0] for row in curve]
        disk.plot(counts, [row[1] / 1e9 for row in curve], marker=".")
        disk.set(xlabel="releases of transformers in one store", ylabel="disk (GB)", ylim=(0, None))
        seconds.plot(counts, [row[2] for row in curve], marker=".", linestyle="none")
        seconds.set(xlabel="releases of transformers in one store", ylabel="seconds of this build", ylim=(0, None))
        path = directory / NAME
        figure.savefig(path, dpi=110, metadata={"Software": None})
    return [path]
