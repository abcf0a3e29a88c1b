"""What is drawn, and what is said where nothing can draw it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.report import plots
from images.host.errors import UserFault

CURVE = {"store": {"facts": {"curve": [[1, 1e9, 20.0], [2, 1.1e9, 3.0]]}}}


@pytest.mark.parametrize("parts", [{}, {"store": {"facts": {}}}, {"store": {"facts": {"curve": [[1, 1e9, 20.0]]}}}])
def test_without_a_curve_nothing_is_drawn(parts: dict[str, dict[str, dict[str, object]]], tmp_path: Path) -> None:
    assert plots.draw(parts, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(UserFault, match="matplotlib") as caught:
        plots.draw(CURVE, tmp_path)

    assert caught.value.remedy == "pip install -e '.[benchmarks]'"
