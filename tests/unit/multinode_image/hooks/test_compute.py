"""Which units for bf16 a processor has, and what a rank says that computes without."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from multinode_image.hooks.compute import bf16_units
from multinode_image.hooks.compute.bf16_units import DISTRIBUTED, computes, must_use_float32
from multinode_image.machine.limits import BF16_UNITS
from multinode_image.settings import BF16

WITH, WITHOUT, UNKNOWN = frozenset({"amx_bf16"}), frozenset[str](), None


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bf16_units, "KNOWN", bf16_units.Known())
    read = bf16_units.read_units
    read.cache_clear()
    yield
    read.cache_clear()


@pytest.mark.parametrize(
    ("line", "units"),
    [
        *((f"flags\t\t: fpu {unit} sse", {unit}) for unit in BF16_UNITS),
        ("Features\t: fp asimd bf16", {"bf16"}),
        ("flags\t\t: fpu avx512_bf16x sse", set()),
        ("model name\t: bf16", None),
        ("flags\t\t:", None),
        ("", None),
    ],
)
def test_units_are_those_that_the_kernel_names(tmp_path: Path, line: str, units: set[str] | None) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\nbugs\t\t: none\n")
    assert bf16_units.read_units(tmp_path / "cpuinfo") == units
    assert bf16_units.read_units(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("units", "word", "does"),
    [
        (WITH, "", True), (UNKNOWN, "", True), (WITHOUT, "", False), (WITHOUT, "emulate", True),
        (WITHOUT, " emulate ", True), (WITHOUT, "1", False),
    ],
)  # fmt: skip
def test_a_rank_computes_in_bf16_with_a_unit_or_where_the_user_insists(
    monkeypatch: pytest.MonkeyPatch, units: frozenset[str] | None, word: str, does: bool
) -> None:
    monkeypatch.setattr(bf16_units, "read_units", lambda: units)
    monkeypatch.setenv(BF16, word)
    monkeypatch.delitem(sys.modules, DISTRIBUTED, raising=False)
    assert computes() is does and must_use_float32() is not does


def test_that_of_another_rank_is_named_once_for_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bf16_units, "computes", lambda: True)
    monkeypatch.setattr(bf16_units, "find_lacking", lambda: 3)
    for rank, lines in (("1", 0), ("0", 1)):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setattr(bf16_units, "KNOWN", bf16_units.Known())
        for _ in range(2):
            bf16_units.say_float32("autocast")
        assert capsys.readouterr().err.count("because the processor of rank 3 has none of") == lines
