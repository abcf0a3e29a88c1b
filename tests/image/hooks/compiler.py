"""Who is told that torch.compile has no C++ compiler: a script that calls it, and one whose Trainer does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainingArguments, training_args

from multinode_image.hooks.compute import compiler
from multinode_image.hooks.compute.compiler import watch_arguments, watch_compile

SCRIPT, PACKAGE = "/workspace/train.py", "/usr/lib/python3/dist-packages/library/layers.py"
SAID = "this image has no C++ compiler"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine without a compiler; what hooks change of torch and of the Trainer goes back."""
    monkeypatch.setattr(compiler, "SAID", [])
    monkeypatch.setattr(torch, "compile", torch.compile)
    monkeypatch.setattr(TrainingArguments, "__post_init__", TrainingArguments.__post_init__)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CXX", "RANK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "code", "lines"),
    [
        pytest.param(SCRIPT, "compiled = torch.compile(model)", 1, id="a script"),
        pytest.param(SCRIPT, "compiled = torch.compile(model, backend='inductor')", 1, id="the backend by its name"),
        pytest.param(SCRIPT, "compiled = torch.compile(model, backend='eager')", 0, id="a backend without a compiler"),
        pytest.param(SCRIPT, "model.compile()", 1, id="the method of a model"),
        pytest.param(PACKAGE, "compiled = torch.compile(model)", 0, id="a library"),
        pytest.param(PACKAGE, "model.compile()", 0, id="a library by the method of a model"),
    ],
)
def test_a_script_is_told_once(file: str, code: str, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    watch_compile(torch)
    space: dict[str, Any] = {"torch": torch, "model": torch.nn.Linear(1, 1)}

    for _ in range(2):
        exec(compile(code, file, "exec"), space)

    said = capsys.readouterr().err
    assert said.count(f"{SAID}, which torch.compile calls: torch.compile\n") == said.count(SAID) == lines
    assert "compiled" not in space or space["compiled"]._orig_mod is space["model"], "what was asked for is done"


@pytest.mark.parametrize(("name", "variable"), [("g++", ""), ("clang++", "clang++")])
def test_with_a_compiler_torch_is_left_alone(
    name: str, variable: str, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / name).write_text("#!/bin/sh\n")
    (machine / name).chmod(0o755)
    monkeypatch.setenv("CXX", variable)
    compiles = torch.compile

    watch_compile(torch)

    assert torch.compile is compiles


@pytest.mark.parametrize(
    ("rank", "given", "lines"),
    [
        ("0", {"torch_compile": True}, 1),
        ("0", {"torch_compile_backend": "inductor"}, 1),
        ("1", {"torch_compile": True}, 0),
        ("0", {"torch_compile": True, "torch_compile_backend": "eager"}, 0),
        ("0", {}, 0),
    ],
)
def test_arguments_of_a_trainer_are_read_as_it_does(
    rank: str, given: dict[str, Any], lines: int, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("RANK", rank)
    watch_arguments(training_args)

    TrainingArguments(str(tmp_path / "output"), use_cpu=True, report_to="none", **given)

    assert capsys.readouterr().err.count(f"{SAID}, which torch.compile calls: torch_compile=True") == lines
