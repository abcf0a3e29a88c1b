"""Foreign texts that doctor reads: the probe's answer, constraints, directories of installed packages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrypoint.doctor import view
from entrypoint.doctor.view import (
    SECONDS,
    Interface,
    Probe,
    read_constraints,
    read_interfaces,
    read_probe,
    run_probe,
)
from tests.support.doctor import DECISION, HEALTHY


def test_the_answer_of_a_probe_is_read() -> None:
    line = '{"python": "3.11.2", "path": ["/a"], "mapped": ["/b.so"], "torch": "2.13.0", "threads": 2, "reduced": 1.0, '
    line += '"float32": 165.2, "bfloat16": 86}'
    found = Probe("3.11.2", ("/a",), ("/b.so",), "2.13.0", "", 2, "", float32=165.2, bfloat16=86.0)
    assert read_probe(line, "") == found


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", '{"python": 1, "path": 2, "mapped": []}'])
def test_a_probe_that_died_leaves_its_last_words(line: str) -> None:
    assert read_probe(line, "Segmentation fault") == Probe(error="Segmentation fault")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (subprocess.TimeoutExpired(["python3"], SECONDS), f"no answer within {SECONDS} s"),
        (FileNotFoundError(2, "No such file or directory"), "python3: No such file or directory"),
    ],
)
def test_a_probe_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def run(*_: object, timeout: int, **__: object) -> None:
        assert timeout == SECONDS
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    assert run_probe(["python3", "probe.py"], {}) == Probe(error=said)


@given(st.text())
def test_any_file_of_constraints_is_read(text: str) -> None:
    assert all(name == name.lower() for name in read_constraints(text))


def test_constraints_have_normal_names() -> None:
    assert read_constraints("Foo_Bar.baz==1.0\n# no\n") == {"foo-bar-baz": "1.0"}
    assert read_constraints(None) == {}


def test_interfaces_have_the_state_that_the_kernel_says() -> None:
    files = {"/sys/class/net/eth0/operstate": "up\n"}
    assert read_interfaces(["eth0", "lo"], files.get) == (Interface("eth0", "up"), Interface("lo", "unknown"))


@pytest.mark.parametrize(
    ("path", "installed"),
    [
        (("seen", "other"), {"six": ("1.17.0",), "torch": ("2.13.0",)}),
        (("nowhere", "seen"), {"torch": ("2.13.0",)}),
        (("nowhere",), {}),
        ((), {"six": ("1.16.0",)}),  # the probe died
    ],
)
def test_packages_are_those_that_a_training_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], installed: dict[str, tuple[str, ...]]
) -> None:
    for name in ("seen/torch-2.13.0", "other/six-1.17.0", "other/torch-2.12.0", "site/six-1.16.0"):
        (tmp_path / f"{name}.dist-info").mkdir(parents=True)
    probe = Probe(path=tuple(f"{tmp_path}/{name}" for name in path))
    monkeypatch.setattr(view, "run_probe", lambda *_: probe)

    found = view.read_view(DECISION, None, HEALTHY.stack._replace(site=f"{tmp_path}/site"), str(tmp_path))

    assert (found.probe, found.installed) == (probe, installed)
