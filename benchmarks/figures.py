"""The figures of a part of the benchmarks, and the file that has those of all parts."""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.host.machine import has_amx
from images.host.errors import Fault, UserFault, WorldFault
from images.host.files import write_whole

PARTS = ("build", "image", "start", "train", "plain", "example", "settings", "network", "network-plain")
ANOTHER = "--json with another name"


@dataclass
class Figures:
    """What is measured, as it comes: each figure has a unit (s, bytes, ...) and one value of each run.

    `has_amx` is known of figures in the file: whether the processor has AMX.
    """

    values: dict[str, list[float]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    has_amx: bool = False

    def add(self, name: str, value: float, unit: str = "s") -> None:
        """Add the value of a run."""
        self.units[name] = unit
        self.values.setdefault(name, []).append(round(value, 4))

    @contextlib.contextmanager
    def optional(self, what: str) -> Iterator[None]:
        """Go on without what cannot be measured here, and keep why."""
        try:
            yield
        except Fault as fault:
            self.missing[what] = str(fault).partition("\n")[0].removeprefix("error: ")[:300]
            print(fault, file=sys.stderr)

    def median(self, name: str) -> float | None:
        """Return the median of a figure; None if it was not measured."""
        values = self.values.get(name)
        return statistics.median(values) if values else None

    def ratio(self, name: str, other: str) -> float | None:
        """Return the median of one figure in that of another; None unless both were measured."""
        pair = self.median(name), self.median(other)
        return pair[0] / pair[1] if pair[0] is not None and pair[1] else None

    def as_json(self) -> dict[str, Any]:
        """Return everything, as JSON has it."""
        named = {name: {"unit": self.units[name], "values": values} for name, values in self.values.items()}
        return {"figures": named, "missing": self.missing}


def of_json(part: Mapping[str, Any]) -> Figures:
    """Return the figures of a part as it is in the file."""
    figures = Figures(missing=dict(part.get("missing", {})))
    figures.has_amx = "machine" in part and has_amx(part["machine"])
    for name, figure in part.get("figures", {}).items():
        figures.units[name], figures.values[name] = figure["unit"], list(figure["values"])
    return figures


def written(value: float, unit: str, more: int = 0) -> str:
    """Write a value as a page shows it; unit: that of the figure, or `ratio`; more: digits beyond the usual ones."""
    if unit == "bytes":
        return f"{value / 1e6:.{1 + more}f} MB"
    if unit == "ratio":
        return f"{value:.{2 + more if value < 10 else more}f}"
    if unit == "s" and value < 0.1:
        return f"{value * 1000:.{1 + more}f} ms"
    if unit == "s":
        return f"{value:.{2 + more if value < 10 else 1 + more}f} s"
    return f"{value:.{4 + more}g} {unit}".strip()


def read(path: Path, remedy: str = ANOTHER) -> dict[str, Any]:
    """Return the parts of a file as JSON has them; none if there is no such file.

    Raises UserFault with the remedy when it is another file.
    """
    if not path.exists():
        return {}
    try:
        parts = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserFault("cannot read the figures", f"{path}: {error}", remedy) from error
    if not isinstance(parts, dict) or not set(parts) <= set(PARTS):
        raise UserFault("this is no file of figures", path, remedy)
    return parts


def put(path: Path, name: str, part: Mapping[str, Any]) -> None:
    """Put the figures of a part into a file in the place of earlier ones; the other parts stay.

    Raises UserFault when it is another file, WorldFault when it cannot be written; then it is as it was before.
    """
    parts = {**read(path), name: part}
    ordered = {part_name: parts[part_name] for part_name in PARTS if part_name in parts}
    try:
        # A full disk does not take the figures that were there.
        write_whole(path, f"{json.dumps(ordered, indent=1, ensure_ascii=False)}\n".encode())
    except OSError as error:
        remedy = "make room there, or --json with a name where you may write"
        raise WorldFault("cannot write the figures", f"{path} ({error.strerror or error})", remedy) from error
