"""What containers are given in which the scripts of both sides train."""

from __future__ import annotations

import itertools
from pathlib import Path
from unittest import mock

import pytest

from benchmarks.host.containers import Setting
from benchmarks.train import bf16, scripts
from benchmarks.train.scripts import DATA, Trainings

WITH, WITHOUT = "flags\t\t: fpu avx2 avx512_bf16 amx_bf16", "flags\t\t: fpu avx2"


@pytest.mark.parametrize(("cpuinfo", "hides"), [(WITH, True), (WITHOUT, False)])
def test_units_are_hidden_from_both_sides_where_there_are_some(
    cpuinfo: str, hides: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = list[Setting]()
    for name in ("run", "together"):
        monkeypatch.setattr(scripts, name, lambda *words: settings.append(words[3]))
    place = tmp_path / "cpuinfo"
    trainings = Trainings(mock.Mock(), "image", tmp_path, "", 2, bf16.setting(cpuinfo, place, {}))

    for side, start in itertools.product(("guide", "ours"), (trainings.run, trainings.together)):
        start(side, "train")

    assert [each.mounts for each in settings] == [{tmp_path: DATA} | ({place: bf16.CPUINFO} if hides else {})] * 4
    assert [bf16.HIDES.items() <= each.environ.items() for each in settings] == [hides] * 4
    assert {each.entrypoint for each in settings} == {"sh"}
    assert ["OMP_NUM_THREADS" in each.environ for each in settings] == [True, True, False, False]
    assert not hides or place.read_text() == WITHOUT
