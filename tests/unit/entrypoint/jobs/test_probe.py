"""Doctor's probe, where there is no torch: its last line is what the view reads."""

from __future__ import annotations

import sys

import pytest

from entrypoint.doctor.view import read_probe
from entrypoint.jobs import probe


class Ended(Exception):
    """Stands for the end of the process."""


def run(backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr("os._exit", end)
    with pytest.raises(Ended):
        probe.main(backend)
    return capsys.readouterr().out.splitlines()[-1]


def test_a_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = read_probe(run("gloo", monkeypatch, capsys), "nothing")
    assert found.error.startswith("ModuleNotFoundError: import of torch halted")
    assert found.python.startswith("3.") and any("libc" in path for path in found.mapped)


def test_what_torch_reports(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(probe, "examine_torch", lambda backend: {"torch": "2.13.0", "file": backend, "threads": 4})
    found = read_probe(run("gloo", monkeypatch, capsys), "nothing")
    assert (found.torch, found.file, found.threads, found.error) == ("2.13.0", "gloo", 4, "")
