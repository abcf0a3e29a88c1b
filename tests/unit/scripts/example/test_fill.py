"""The directory of the example."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.example import __main__ as example


def test_others_may_read_the_example_whatever_this_user_gives_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bring(place: Path, *_: object) -> None:
        (place / "model").mkdir()
        (place / "model" / "config.json").write_text("{}")

    monkeypatch.setattr(example, "_bring_model", bring)
    monkeypatch.setattr(example, "_bring_texts", lambda *_: {})
    before = os.umask(0o077)
    try:
        assert example.main([str(tmp_path / "example")]) == 0
    finally:
        os.umask(before)

    found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "example").rglob("*")}
    assert found == {"model": 0o755, "config.json": 0o644, "train.py": 0o644}
