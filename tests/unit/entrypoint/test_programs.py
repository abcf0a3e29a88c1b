"""What a program inherits that takes the place of this process."""

from __future__ import annotations

import os
import signal

import pytest

from entrypoint.programs import IGNORED, become


def test_a_program_finds_the_signals_that_python_ignores_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    monkeypatch.setattr(os, "execvpe", lambda *_: found.extend(signal.getsignal(each) for each in IGNORED))

    become("program", ["program"], {})

    assert found == [signal.SIG_DFL, signal.SIG_DFL]


def test_a_program_that_is_not_there_changes_nothing() -> None:
    before = [signal.getsignal(each) for each in IGNORED]

    with pytest.raises(FileNotFoundError):
        become("/no/such/program", ["program"], {})

    assert [signal.getsignal(each) for each in IGNORED] == before
