"""What is kept of containers, made by hand here: all that the page and the promises name; and how trainings start."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast
from unittest import mock

import pytest

from benchmarks.figures import Figures
from benchmarks.host.containers import Setting
from benchmarks.host.group import SMALL, WARM, Group, Shape
from benchmarks.parts import example, network, plain, settings
from benchmarks.promises import KEPT, MISSED, PROMISES, SHOWN, verdict
from benchmarks.report.rows import NODES, TABLES
from benchmarks.report.tables import names
from benchmarks.sides import hidden_units, scripts
from benchmarks.sides.scripts import DATA, Trainings, measure_speed, read_smoke
from images.host.errors import WorldFault

OPTIONS = 8  # words of turns.py before the ways
SECONDS = {"apart": 1.0, "off": 2.0}
PRINTED = """\
3.10 [INFO] {'learning_rate': 0.1}
20.50 {'eval_loss': '2.1', 'eval_accuracy': '0.41', 'epoch': '0.25'}
30.50 {'eval_loss': 1.5, 'eval_accuracy': 0.59, 'eval_runtime': 2.1}
31.30 {'loss': '1.4', 'epoch': '0.75'}
40.00 {'eval_loss': '1.3', 'eval_accuracy': '0.64', 'epoch': '1.0'}
"""
FAST = "0.50 {'eval_accuracy': 0.41}\n3.00 {'eval_accuracy': 0.64}\n"
SUMMED = "  eval_f1 = 99.9\n  train_samples_per_second = 17.5\n"
SPEED = {"guide": 10.0, "padded": 25.0, "ours": 40.0}
WITH, WITHOUT = "flags\t\t: fpu avx2 avx512_bf16 amx_bf16", "flags\t\t: fpu avx2"


class Containers:
    """Some containers; less of a network, and plain DDP, take longer, and the first two steps of all."""

    scratch = mock.Mock()

    def __init__(self, *, limited: bool) -> None:
        self.limited = limited

    def together(self, words: Sequence[str], rate: str) -> str:
        if rate and not self.limited:
            raise WorldFault("a command failed", "tc", "run it as root")
        steps = {way: [99.0, 99.0, SECONDS.get(way, 1.0 + bool(rate) / 20)] for way in words[OPTIONS:]}
        return f"a line of the training\n{json.dumps(steps)}\n"


class Slowing:
    """Two containers on a machine of which each training takes a second more than the one before."""

    def __init__(self) -> None:
        self.seconds: Iterator[float] = iter((10.0, 11.0, 12.0, 13.0))

    def apart(self, _: Shape) -> list[float]:
        return [next(self.seconds)] * 2

    def together(self, _: Sequence[str]) -> str:
        return json.dumps({"steps": [30.0, 20.0, next(self.seconds)]})


def limited(kinds: Mapping[str, Sequence[str]], *, is_root: bool = True) -> Figures:
    """Return what is kept of trainings with less of a network, which only root can limit."""
    figures = Figures()
    for kind, rates in kinds.items():
        network.measure_kind(cast(Group, Containers(limited=is_root)), figures, kind, rates)
    return figures


def trained(step: float) -> Figures:
    """Return what is kept on a plain processor; step: seconds of one whose products alone take two."""

    def ran(side: str, *_: object) -> str:
        return f"  train_samples_per_second = {SPEED[side]}\n"

    figures, scratch = Figures(), mock.Mock(**{"rounds.side_effect": range})
    same = mock.Mock(scratch=scratch, train=lambda side, *_: side, run=ran, together=ran)
    plain.compare_orders(cast(Trainings, same), figures, 1)
    measure_speed(cast(Trainings, same), figures, 1, plain.SPEEDS)
    seconds = dict(zip(plain.RATES, ([99.0] * WARM + [step] * 3, [50.0] * WARM + [2.0] * 3), strict=True))
    plain.keep_share(figures, f"a line of the training\n{json.dumps({'operations': 4e9, **seconds})}\n")
    return figures


def learned() -> Figures:
    """Return what is kept of trainings of a real model."""
    figures = Figures()
    for side, text in (("guide", PRINTED), ("ours", FAST)):
        for nodes in NODES:
            example.keep(figures, f"{side} {nodes}", text)
    trainings = cast(Trainings, mock.Mock(**{"together.return_value": PRINTED + SUMMED}))
    example.compare_sent(trainings, figures)
    example.measure_rates(trainings, figures)
    return figures


ALL = dict.fromkeys(network.KINDS, network.RATES)
KEEPERS = {
    "network": lambda: limited(ALL),
    "network-plain": lambda: limited(network.PLAIN_KINDS),
    "plain": lambda: trained(2.2),
    "example": learned,
}


@pytest.mark.parametrize("part", KEEPERS)
def test_all_that_is_measured_is_shown_and_all_that_is_promised_is_measured(part: str) -> None:
    figures = KEEPERS[part]()

    shown = {name for table in TABLES[part] for row in table.rows for name in names(table, row)}
    states = [verdict(promise, figures).state for promise in PROMISES if promise.part == part]
    assert set(figures.values) <= shown
    assert set(states) - {SHOWN} == {KEPT}
    assert states.count(SHOWN) == (part == "network")  # for another processor


def test_without_a_limit_the_rest_is_measured_all_the_same() -> None:
    figures = limited(ALL, is_root=False)

    assert {name for name in figures.values if "bit" in name} == set()
    assert {"float32 apart unlimited", "four bfloat16 off unlimited"} <= set(figures.values)
    assert len(figures.missing) == 9


def test_a_machine_that_gets_slower_favours_neither_side() -> None:
    figures = Figures()

    settings.compare(figures, cast(Group, Slowing()), SMALL)

    assert figures.ratio("apart 8x128", "together 8x128") == pytest.approx(1)


@pytest.mark.parametrize(("step", "share", "state"), [(2.0, 1.0, KEPT), (2.5, 0.8, KEPT), (4.0, 0.5, MISSED)])
def test_the_share_of_a_core_is_that_of_the_turns_after_the_first(step: float, share: float, state: str) -> None:
    figures = trained(step)
    [promise] = (promise for promise in PROMISES if promise.figure == "step rate")

    judged = verdict(promise, figures)

    assert judged.value == pytest.approx(share)
    assert judged.state == state
    assert figures.median("products rate") == 2.0


def test_looks_are_read_as_either_release_prints_them() -> None:
    assert example.read(PRINTED) == [(20.5, 0.41), (30.5, 0.59), (40.0, 0.64)]


@pytest.mark.parametrize(("text", "kept"), [(PRINTED, 25.5), (PRINTED[:110], None)])
def test_the_time_to_the_goal_is_between_two_looks(text: str, kept: float | None) -> None:
    figures = Figures()

    example.keep(figures, "ours one", text)

    assert figures.median("ours one to goal") == (kept and pytest.approx(kept))


def test_seconds_of_smoke_are_read_from_its_line() -> None:
    assert read_smoke("a line\nsmoke: passed: world_size=2 seconds=1.25 loss_after=0.01\n") == 1.25
    with pytest.raises(WorldFault):
        read_smoke("smoke: failed: seconds=1.25\n")


@pytest.mark.parametrize(("cpuinfo", "hides"), [(WITH, True), (WITHOUT, False)])
def test_units_are_hidden_from_both_sides_where_there_are_some(
    cpuinfo: str, hides: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[Setting]()
    for name in ("run", "together"):
        monkeypatch.setattr(scripts, name, lambda *words: given.append(words[3]))
    trainings = Trainings(mock.Mock(), "image", tmp_path, "", 2, hidden_units.hide(tmp_path, cpuinfo=cpuinfo))
    place = tmp_path / "cpuinfo"

    for side, start in itertools.product(("guide", "ours"), (trainings.run, trainings.together)):
        start(side, "train")

    assert [setting.mounts for setting in given] == [
        {tmp_path: DATA} | ({place: hidden_units.CPUINFO} if hides else {})
    ] * 4
    assert [hidden_units.HIDES.items() <= setting.environ.items() for setting in given] == [hides] * 4
    assert {setting.entrypoint for setting in given} == {"sh"}
    assert ["OMP_NUM_THREADS" in setting.environ for setting in given] == [True, True, False, False]
    assert not hides or place.read_text() == WITHOUT
