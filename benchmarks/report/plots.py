"""Plots of the figures, by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures.measured import of_json, written
from benchmarks.report import scaling
from images.host.errors import UserFault

STORE, SPEED, NODES = "benchmarks-store.png", "benchmarks-speed.png", "benchmarks-nodes.png"
SETTINGS: Any = {"figure.figsize": (8, 3.2), "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
# What is done, the part, and two figures, whose ratio is how many times as fast ours is as the guide's way.
FASTER: Sequence[tuple[str, str, str, str]] = (
    ("train qa on lengths like SQuAD's", "train", "squad ours speed", "squad guide speed"),
    ("train glue on lengths like MRPC's", "train", "mrpc ours speed", "mrpc guide speed"),
    ("train glue on lengths like QQP's", "train", "qqp ours speed", "qqp guide speed"),
    ("the same in two containers", "train", "qqp ours speed in two", "qqp guide speed in two"),
    ("build an image and push it", "build", "guide first pushed", "ours first pushed"),
    ("build another transformers and push it", "build", "guide next pushed", "ours next pushed"),
)


def draw(parts: Mapping[str, Any], directory: Path) -> list[Path]:
    """Draw what was measured into a directory; return the files.

    Raises UserFault when there is something to draw and no matplotlib.
    """
    plots = (
        (STORE, curve(parts), draw_store), (SPEED, faster(parts), draw_speed), (NODES, nodes(parts), draw_nodes),
    )  # fmt: skip
    return [_save(directory / name, data, write) for name, data, write in plots if len(data) > 1]


def _save(path: Path, data: Sequence[Any], write: Callable[[Any, Sequence[Any]], None]) -> Path:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UserFault("a Python package is missing", error.name, "pip install -e '.[benchmarks]'") from error
    with rc_context(SETTINGS):
        figure = Figure(layout="constrained")
        write(figure, data)
        figure.savefig(path, dpi=110, metadata={"Software": None})
    return path


def curve(parts: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    """Return the store after each release: (releases, bytes of disk, seconds of this build)."""
    return list(parts.get("store", {}).get("facts", {}).get("curve", []))


def draw_store(figure: Any, rows: Sequence[Sequence[float]]) -> None:
    """Draw disk and seconds over the number of releases."""
    disk, seconds = figure.subplots(1, 2)
    counts = [row[0] for row in rows]
    disk.plot(counts, [row[1] / 1e9 for row in rows], marker=".")
    disk.set(xlabel="releases of transformers in one store", ylabel="disk (GB)", ylim=(0, None))
    seconds.plot(counts, [row[2] for row in rows], marker=".", linestyle="none")
    seconds.set(xlabel="releases of transformers in one store", ylabel="seconds of this build", ylim=(0, None))


def faster(parts: Mapping[str, Any]) -> Sequence[tuple[str, float]]:
    """Return what was measured on both sides, with how many times as fast ours is as the guide's way."""
    ratios = [(what, of_json(parts.get(part, {})).ratio(one, other)) for what, part, one, other in FASTER]
    return [(what, ratio) for what, ratio in ratios if ratio is not None]


def draw_speed(figure: Any, rows: Sequence[tuple[str, float]]) -> None:
    """Draw a bar for each ratio, the first on top."""
    axes = figure.subplots()
    bars = axes.barh([what for what, _ in rows], [ratio for _, ratio in rows])
    axes.bar_label(bars, [f"{written(ratio, 'ratio')} times" for _, ratio in rows], padding=4)
    axes.invert_yaxis()
    axes.set(
        xscale="log", xlim=(1, 3 * max(ratio for _, ratio in rows)), xlabel="as fast as the guide's way (logarithmic)"
    )
    axes.xaxis.set_major_formatter("{x:g}")


def nodes(parts: Mapping[str, Any]) -> Sequence[tuple[str, Sequence[int], Sequence[float]]]:
    """Return lines on paper and points that were measured: a name, numbers of nodes, times as fast as one."""
    lines = [(name, scaling.NODES, speeds) for name, speeds in scaling.curves(parts).items()]
    points = [point for point in scaling.points(parts) if point.gigabits == scaling.SHOWN and point.ranks == 2]
    measured = [([point.ranks], [point.ranks * point.alone / point.seconds]) for point in points]
    return [*lines, *(("", *point) for point in measured)]


def draw_nodes(figure: Any, rows: Sequence[tuple[str, Sequence[int], Sequence[float]]]) -> None:
    """Draw a line for each way to send, and a point for each that was measured."""
    axes = figure.subplots()
    axes.plot(scaling.NODES, scaling.NODES, color="lightgray", label="as many times as nodes")
    for name, counts, speeds in rows:
        style = {"label": name} if name else {"color": "black", "marker": "o", "linestyle": "none"}
        axes.plot(counts, speeds, **style)
    axes.set(
        xscale="log",
        yscale="log",
        xticks=scaling.NODES,
        yticks=scaling.NODES,
        xlabel="nodes, 1 Gbit/s beside a core",
        ylabel="times as fast as one",
    )
    axes.minorticks_off()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.legend(frameon=False, loc="upper left")
