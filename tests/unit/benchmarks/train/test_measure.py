"""Where the trainings of the benchmark are not begun at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures.measured import Figures
from benchmarks.host.scratch import Scratch
from benchmarks.train import measure
from images.host.errors import UserFault


def test_a_processor_that_emulates_bfloat16_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A step of the large model takes minutes there."""
    monkeypatch.setattr(measure, "read_text", lambda path: "model name\t: A Processor\nflags\t\t: fpu avx2\n")
    with pytest.raises(UserFault, match="A Processor"):
        measure.measure(Scratch(tmp_path, "benchmark", 0), Figures(), 1)
