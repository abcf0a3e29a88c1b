"""Doctor's probe, where there is no torch: its last line is what the view reads."""

from __future__ import annotations

import sys
from types import ModuleType

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
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = read_probe(run("gloo", monkeypatch, capsys), "nothing")
    assert (found.torch, found.transformers) == ("", "")
    assert found.broken.startswith("ModuleNotFoundError: import of transformers halted")
    assert found.error.startswith("ModuleNotFoundError: import of torch halted")
    assert found.python.startswith("3.") and any("libc" in path for path in found.mapped)


def test_what_torch_reports(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    torch, distributed = ModuleType("torch"), ModuleType("torch.distributed")
    torch.__dict__.update(__version__="2.13.0", __file__="/torch", get_num_threads=lambda: 4, distributed=distributed)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    found = read_probe(run("gloo", monkeypatch, capsys), "nothing")
    assert (found.torch, found.file, found.threads) == ("2.13.0", "/torch", 4)
    assert found.error.startswith("AttributeError"), "no group can form, and torch is known all the same"
