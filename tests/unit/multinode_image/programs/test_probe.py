"""Doctor's probe, where there is no torch: its last line is what the view reads."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from multinode_image.doctor import read_probe
from multinode_image.programs import probe


class Ended(Exception):
    """Stands for the end of the process."""


def run(backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr("os._exit", end)
    with pytest.raises(Ended):
        probe.main([backend], {}, "/")
    return capsys.readouterr().out.splitlines()[-1]


def test_a_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = read_probe(run("gloo", monkeypatch, capsys), "nothing")
    assert (found.torch, found.transformers) == ("", "")
    assert found.broken.startswith("ModuleNotFoundError: import of transformers halted")
    assert found.error.startswith("ModuleNotFoundError: import of torch halted")
    assert found.python.startswith("3.")


@pytest.mark.parametrize(
    ("files", "importing", "broken"),
    [
        ({}, "transformers.trainer", ""),
        ({"torchvision/__init__.py": "raise RuntimeError('no nms')"}, "torchvision", "RuntimeError: no nms"),
        ({"torchaudio.py": "raise OSError('libcudart.so')"}, "torchaudio", "OSError: libcudart.so"),
        (
            {"transformers/trainer.py": "raise ModuleNotFoundError('Trainer') from ImportError('no peft')"},
            "transformers.trainer",
            "ImportError: no peft",
        ),
    ],
)
def test_what_the_trainer_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], importing: str, broken: str
) -> None:
    written = {"transformers/__init__.py": "__version__ = '5.23.0'", "transformers/trainer.py": "", **files}
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in probe.TRAINER:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that what is imported here is gone afterwards
        del sys.modules[name]

    found: dict[str, object] = {}
    assert probe.attempt(lambda: probe.examine_transformers(found)) == broken
    assert found == {"importing": importing, **({} if broken else {"transformers": "5.23.0"})}
