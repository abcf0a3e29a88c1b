"""Processors with and without units for bf16, on which the trainings of the benchmark run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.train import bf16, measure
from entrypoint.machine.limits import has_bf16, read_flags
from images.host.errors import UserFault

NAME = "processor\t: 0\nmodel name\t: A Processor\n"
WITH, WITHOUT = f"{NAME}flags\t\t: fpu avx512_bf16 avx512_fp16 amx_bf16 avx2\n", f"{NAME}flags\t\t: fpu avx2\n"


def test_a_processor_that_emulates_bfloat16_trains_nothing_large_in_it() -> None:
    measure.check_units(WITH)
    with pytest.raises(UserFault, match="A Processor"):
        measure.check_units(WITHOUT)


def test_units_are_hidden_where_there_are_any(tmp_path: Path) -> None:
    place = tmp_path / "cpuinfo"
    bare = bf16.setting(WITHOUT, place, {"A": "1"})
    assert (bare.mounts, bare.environ, place.exists()) == ({}, {"A": "1"}, False)

    hidden = bf16.setting(WITH, place, {"A": "1"})

    assert hidden.mounts == {place: "/proc/cpuinfo"}
    assert hidden.environ == {**bf16.HIDES, "A": "1"}
    assert place.read_text() == WITHOUT
    assert not has_bf16(read_flags(place.read_text()))
