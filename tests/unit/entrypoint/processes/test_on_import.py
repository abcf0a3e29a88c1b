"""Modules that a program of ours changes once they are imported."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from entrypoint.processes import on_import


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Write a program, and beside it a module that it changes."""
    (tmp_path / "stand_in.py").write_text("VALUE = 1")
    (tmp_path / "program.py").write_text("def change(module):\n    module.VALUE += 1\n")
    return str(tmp_path / "program.py")


@pytest.mark.parametrize("argv", [["x.py"], [], None], ids=str)
def test_a_module_is_changed_once_it_has_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, argv: list[str] | None
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    if argv is None:
        monkeypatch.delattr(sys, "argv")
    spec = on_import.find_spec("stand_in", [str(tmp_path)], program)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)

    spec.loader.exec_module(module)

    assert module.VALUE == 2


def test_a_module_that_is_not_there_is_not_found(tmp_path: Path, program: str) -> None:
    assert on_import.find_spec("no_such_stand_in", [str(tmp_path)], program) is None
