"""What nothing starts rots: each part of the benchmarks, and what they share, is started at a release."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.__main__ import PARTS
from benchmarks.figures import file as figures
from benchmarks.figures.measured import Figures
from benchmarks.host import scratch
from benchmarks.host.scratch import Scratch
from benchmarks.network.measure import OPTIONS, TURNS
from benchmarks.report import plots
from benchmarks.settings import scenes
from benchmarks.settings.pair import Group, Shape
from benchmarks.settings.scenes import WARM, Scene
from benchmarks.train.measure import VARIABLE
from tests.support.harness import ROOT, new_name

TINY = Shape(1, 8, 1, "float32")


@pytest.mark.slow  # the next test has all of it but containers that train apart
def test_two_containers_apart_and_as_ranks_with_less_of_a_network(image: str, tmp_path: Path) -> None:
    two = Group(Scratch(tmp_path, new_name(), time.monotonic()), image)

    apart = two.apart(TINY)
    together = json.loads(two.together(TINY.words, "1gbit", {"MULTINODE_GRADIENTS": "int8"}).splitlines()[-1])

    assert len(apart) == 2 and min(apart) > 0
    assert together["world"] == 2 and len(together["steps"]) == WARM + TINY.steps


@pytest.mark.slow  # as the part `network` below, in seconds
def test_ranks_that_train_in_every_way_in_turn(image: str, tmp_path: Path) -> None:
    two = Group(Scratch(tmp_path, new_name(), time.monotonic()), image, script=TURNS)
    ways = ["apart", "default", "off", OPTIONS[0]]
    words = ["--batch", "1", "--length", "8", "--layers", "1", "--steps", "2", "--dtype", "float32"]

    seconds = json.loads(two.together([*words, *ways], "1gbit").splitlines()[-1])

    assert {way: len(each) for way, each in seconds.items()} == dict.fromkeys(ways, 2)


@pytest.mark.slow
def test_the_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plots were NOT drawn: pip install -e '.[benchmarks]'")

    drawn = plots.draw(figures.read(ROOT / "docs" / "benchmarks.json"), tmp_path)

    assert len(drawn) >= 2
    assert {path.read_bytes()[:4] for path in drawn} == {b"\x89PNG"}


def check_nothing(cpuinfo: str) -> None:
    """Take any processor: few words take seconds in bfloat16 everywhere."""


FLOAT32 = scenes.MODELS["float32"]
# The smallest sizes of each part, beside one run: what its modules have as constants. What a store of its own has to
# download, and what builds from nothing take, stays.
SMALLEST: Mapping[str, Mapping[str, object]] = {
    "build": {"benchmarks.build.alone.FORGOTTEN": 0},
    "image": {},
    "start": {},
    "train": {"benchmarks.train.scripts.SEEDS": ("1",), "benchmarks.train.bf16.STEPS": ()},
    "plain": {"benchmarks.plain.measure.TURNS": ("--batch", "1", "--length", "8", "--layers", "1", "--turns", "3")},
    "example": {
        "benchmarks.example.measure.RATES": ("1gbit",),
        "benchmarks.example.measure.SEEDS": ("1",),
    },
    "settings": {
        "benchmarks.settings.measure.check_units": check_nothing,
        "benchmarks.settings.scenes.SCENES": (Scene("half", 0.5),),
        "benchmarks.settings.scenes.MODELS": {**scenes.MODELS, "distilbert": FLOAT32},
        "benchmarks.settings.pair.LARGE": TINY,
        "benchmarks.settings.pair.SMALL": TINY,
        "benchmarks.settings.oneccl.SMALL": TINY,
    },
    "network": {
        "benchmarks.network.measure.check_units": check_nothing,
        "benchmarks.network.measure.RATES": ("1gbit",),
        "benchmarks.network.measure.SMALL": TINY,
    },
    "network-plain": {
        "benchmarks.network.plain.KINDS": {"float32": ("1gbit",)},
        "benchmarks.network.measure.SMALL": TINY,
    },
    "store": {},
}
# In the place of the real scripts of the examples, which GitHub has: it learns nothing, and says how it went.
SCRIPT = """
for name in ("train_samples_per_second", "train_loss", "eval_f1", "eval_accuracy"):
    print(f"  {name} = 0.5")
print({"eval_accuracy": "0.5"})
"""
SCRIPTS = ("question-answering/run_qa.py", "text-classification/run_glue.py")
# What not every machine has the wheels for.
MAY_BE_MISSING = {"oneCCL"}


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("part", PARTS)
def test_each_part_measures_in_its_smallest_size(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, size in SMALLEST[part].items():
        monkeypatch.setattr(place, size)
    for script in (tmp_path / "examples/pytorch" / each for each in SCRIPTS):
        script.parent.mkdir(parents=True)
        script.write_text(SCRIPT)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    measured = Figures()

    with scratch.opened() as opened:
        PARTS[part].measure(opened, measured, 1)

    assert measured.values and measured.missing.keys() <= MAY_BE_MISSING
