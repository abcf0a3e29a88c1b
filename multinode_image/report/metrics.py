"""What a training has left, as Prometheus reads it: its text format, version 0.0.4, written by hand to cost no start.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from multinode_image.report.trainings import SPEED, WAITING, Point, Training

TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What each says, by its name behind PREFIX.
PREFIX = "multinode_training_"
ABOUT = {
    "step": "The last step that the training has kept.",
    "steps": "The steps that it will have.",
    "timestamp_seconds": "When that step was done.",
    "samples_per_second": "The speed of all ranks together.",
    "waiting_ratio": "The part of the time in which rank 0 has waited for gradients of others.",
    "starts_total": "How often it was started.",
    "logged": "What the Trainer has logged last, by its name.",
}


def write_metrics(training: Training | None) -> str:
    """Return the metrics of a training; nothing where there is none yet."""
    rows = dict[str, list[str]]()
    for name, label, value in list_values(training) if training else ():
        rows.setdefault(name, []).append(f"{PREFIX}{name}{label} {write_value(value)}")
    return "".join(f"{write_head(name)}{chr(10).join(each)}\n" for name, each in rows.items())


def write_head(name: str) -> str:
    """Return the two lines that say what a metric is."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return f"# HELP {PREFIX}{name} {ABOUT[name]}\n# TYPE {PREFIX}{name} {kind}\n"


def list_values(training: Training) -> Iterator[tuple[str, str, float]]:
    """Yield the name of each metric, its label, and its value."""
    moments = [moment for start in training.starts for moment in start.moments]
    logged = {name: points[-1] for name, points in training.curves.items() if points}
    if steps := [*(step for step, _, _ in moments[-1:]), *(step for step, _ in logged.values())]:
        yield "step", "", max(steps)
    if training.total:
        yield "steps", "", training.total
    if moments:
        yield "timestamp_seconds", "", moments[-1][1]
    yield from list_rates(logged)
    if training.starts:
        yield "starts_total", "", len(training.starts)
    for name, (_, value) in logged.items():
        yield "logged", f'{{name="{escape_label(name)}"}}', value


def list_rates(logged: dict[str, Point]) -> Iterator[tuple[str, str, float]]:
    """Yield what is measured, which is taken out of what is logged; waiting is per cent there."""
    for name, known, whole in ((SPEED, "samples_per_second", 1), (WAITING, "waiting_ratio", 100)):
        if name in logged:
            yield known, "", logged.pop(name)[1] / whole


def escape_label(text: str) -> str:
    """Return a value of a label as it stands between quotation marks."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_value(value: float) -> str:
    """Return a number as Go reads it."""
    if math.isnan(value):
        return "NaN"
    return f"{value!r}" if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")
