"""What nothing starts rots: each part of the benchmarks, and what they share, is started at a release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.__main__ import PARTS
from benchmarks.figures import Figures
from benchmarks.host import scratch
from benchmarks.host.group import Shape
from benchmarks.parts.settings import Scene
from benchmarks.parts.train import VARIABLE

TINY = Shape(1, 8, 1, "float32")


def check_nothing(cpuinfo: str) -> None:
    """Take any processor: few words take seconds in bfloat16 everywhere."""


# The smallest sizes of each part, beside one run: what its modules have as constants. What a store of its own has to
# download, and what builds from nothing take, stays.
SMALLEST: Mapping[str, Mapping[str, object]] = {
    "build": {"benchmarks.parts.build.FORGOTTEN": 0},
    "image": {},
    "start": {},
    "train": {"benchmarks.sides.scripts.SEEDS": ("1",), "benchmarks.parts.train.STEPS": ()},
    "plain": {"benchmarks.parts.plain.TURNS": ("--batch", "1", "--length", "8", "--layers", "1", "--turns", "3")},
    "example": {
        "benchmarks.parts.example.RATES": ("1gbit",),
        "benchmarks.parts.example.SEEDS": ("1",),
    },
    "settings": {
        "benchmarks.parts.settings.check_units": check_nothing,
        "benchmarks.parts.settings.SCENES": (Scene("half", 0.5, models=("smoke", "float32")),),
        "benchmarks.parts.settings.LARGE": TINY,
        "benchmarks.parts.settings.SMALL": TINY,
    },
    "network": {
        "benchmarks.parts.network.check_units": check_nothing,
        "benchmarks.parts.network.RATES": ("1gbit",),
        "benchmarks.parts.network.SMALL": TINY,
    },
    "network-plain": {
        "benchmarks.parts.network.PLAIN_KINDS": {"float32": ("1gbit",)},
        "benchmarks.parts.network.SMALL": TINY,
    },
}
# In the place of the real scripts of the examples, which GitHub has: it learns nothing, and says how it went.
SCRIPT = """
for name in ("train_samples_per_second", "train_loss", "eval_f1", "eval_accuracy"):
    print(f"  {name} = 0.5")
print({"eval_accuracy": "0.5"})
"""
SCRIPTS = ("question-answering/run_qa.py", "text-classification/run_glue.py")


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("part", PARTS)
def test_each_part_measures_in_its_smallest_size(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, size in SMALLEST[part].items():
        monkeypatch.setattr(place, size)
    for script in (tmp_path / "examples/pytorch" / name for name in SCRIPTS):
        script.parent.mkdir(parents=True)
        script.write_text(SCRIPT)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    measured = Figures()

    with scratch.opened() as opened:
        PARTS[part][0](opened, measured, 1)

    assert measured.values and not measured.missing
