"""What nothing starts rots: what the benchmarks share is started at each landing, in its smallest size."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks.figures import file as figures
from benchmarks.host.scratch import Scratch
from benchmarks.network.measure import OPTIONS, TURNS
from benchmarks.report import plots
from benchmarks.settings.pair import Group, Shape
from benchmarks.settings.scenes import WARM
from tests.support.harness import ROOT, new_name

TINY = Shape(1, 8, 1, "float32")


def test_two_containers_apart_and_as_ranks_with_less_of_a_network(bare_image: str, tmp_path: Path) -> None:
    two = Group(Scratch(tmp_path, new_name(), time.monotonic()), bare_image)

    apart = two.apart(TINY)
    together = json.loads(two.together(TINY.words, "1gbit", {"MULTINODE_GRADIENTS": "int8"}).splitlines()[-1])

    assert len(apart) == 2 and min(apart) > 0
    assert together["world"] == 2 and len(together["steps"]) == WARM + TINY.steps


def test_ranks_that_train_in_every_way_in_turn(bare_image: str, tmp_path: Path) -> None:
    two = Group(Scratch(tmp_path, new_name(), time.monotonic()), bare_image, script=TURNS)
    ways = ["apart", "default", "off", "int8", *OPTIONS]
    words = ["--batch", "1", "--length", "8", "--layers", "1", "--steps", "3", "--dtype", "float32"]

    seconds = json.loads(two.together([*words, *ways], "1gbit").splitlines()[-1])

    assert {way: len(each) for way, each in seconds.items()} == dict.fromkeys(ways, 3)


@pytest.mark.slow
def test_the_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plots were NOT drawn: pip install -e '.[benchmarks]'")

    drawn = plots.draw(figures.read(ROOT / "docs" / "benchmarks.json"), tmp_path)

    assert len(drawn) >= 2
    assert {path.read_bytes()[:4] for path in drawn} == {b"\x89PNG"}
