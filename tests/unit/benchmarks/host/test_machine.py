"""What decides the figures, and how it is written."""

from __future__ import annotations

import pytest

from benchmarks.host import machine

INFO = "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu avx512_bf16 amx_tile amx_bf16\n\nmodel name\t: other\n"


def test_a_field_is_that_of_the_first_processor() -> None:
    assert machine.field(INFO, "model name") == "Xeon"
    assert "amx_bf16" in machine.field(INFO, "flags").split()
    assert machine.field(INFO, "Features") == "unknown"


@pytest.mark.parametrize(
    ("units", "amx", "names"),
    [(["avx512_bf16", "amx_bf16"], "with AMX", "avx512_bf16, amx_bf16"), ([], "without AMX", "none")],
)
def test_the_units_for_bfloat16_are_named(units: list[str], amx: str, names: str) -> None:
    text = machine.written(
        {"cores": 2, "cpu": "X", "units": units, "memory_gb": 8, "kernel": "6.1", "engine": "D", "load": 0}
    )

    assert amx in text and names in text


@pytest.mark.parametrize(
    ("loads", "found", "waited"),
    [([0.1], 0.1, 0), ([1.4, 0.9, 0.5, 2.0], 0.5, 2), ([1.0] * (machine.PATIENCE + 1), 1.0, machine.PATIENCE)],
)
def test_the_load_of_the_part_before_is_waited_for_and_not_for_ever(
    loads: list[float], found: float, waited: int, capsys: pytest.CaptureFixture[str]
) -> None:
    left, slept = iter(loads), list[float]()

    assert machine.await_quiet(lambda: next(left), slept.append) == found

    assert slept == [1] * waited
    assert capsys.readouterr().err.count("waiting for other work to end") == bool(waited)
