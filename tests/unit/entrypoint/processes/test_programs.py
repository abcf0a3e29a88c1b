"""What a program inherits that takes the place of this process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from entrypoint.errors import Refusal
from entrypoint.processes.programs import IGNORED, TRAINING, become, execute
from entrypoint.programs.at_exit import VARIABLE


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


@pytest.mark.parametrize(
    ("text", "mode", "code", "said"),
    [
        ("exit 0\n", 0o755, 126, "Exec format error"),
        ("#!/missing/interpreter\n", 0o755, 126, "the interpreter of a program is not there"),
        ("#!/bin/sh\r\nexit 0\r\n", 0o755, 126, "line ends of Windows"),
        ("#!/bin/sh\nexit 0\n", 0o644, 126, "Permission denied"),
        (None, 0o755, 127, "there is no such program"),
    ],
)
def test_a_program_that_cannot_be_executed(tmp_path: Path, text: str | None, mode: int, code: int, said: str) -> None:
    program = tmp_path / "program"
    if text is not None:
        program.write_bytes(text.encode())
        program.chmod(mode)
    with pytest.raises(Refusal, match=said) as caught:
        execute(str(program), [str(program)], {"PATH": "/bin"})
    assert caught.value.code == code


def test_a_training_gets_its_own_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert VARIABLE == TRAINING
    found: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execvpe", lambda _program, _argv, environ: found.append(environ))

    become("program", ["program"], {TRAINING: "1"})
    become("program", ["program"], {})

    assert found == [{TRAINING: str(os.getpid())}, {}]
