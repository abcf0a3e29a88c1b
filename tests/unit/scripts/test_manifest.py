"""scripts/manifest.py, run within this process: what it hands on, and what it says without its packages."""

from __future__ import annotations

import runpy
import signal
import sys
from collections.abc import Iterator

import pytest
import yaml

from tests.support.harness import ROOT

PROGRAM = str(ROOT / "scripts/manifest.py")


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Take back what the program does with ^C."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Run the program with these words and return what it exits with."""
    monkeypatch.setattr(sys, "argv", [PROGRAM, *words])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(PROGRAM, run_name="__main__")
    return ended.value.code


@pytest.mark.parametrize("typed", ["é", "\udcc3\udca9"], ids=["in UTF-8", "in a locale of ASCII"])
def test_what_is_typed_is_taken_for_utf_8(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("prefetch", "--image", "a:1", "--env", f"NAME={typed}", "qa")

    assert run(monkeypatch, *words) == 0

    [container] = yaml.safe_load(capsys.readouterr().out)["spec"]["template"]["spec"]["containers"]
    assert {"name": "NAME", "value": "é"} in container["env"]


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "manifests.cli", raising=False)
    monkeypatch.delattr("manifests.cli", raising=False)

    code = run(monkeypatch, "pvc")

    assert str(code).startswith("error: a Python package is missing: yaml\n  try: pip install -e .")
