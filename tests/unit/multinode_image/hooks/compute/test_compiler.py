"""What is said of torch.compile where there is no compiler; torch and transformers are made up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.compute import compiler
from multinode_image.hooks.compute.compiler import watch_arguments, watch_compile

SCRIPT, PACKAGE = "/workspace/train.py", "/usr/lib/python3/dist-packages/library/layers.py"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine without a compiler."""
    monkeypatch.setattr(compiler, "SAID", [])
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CXX", "RANK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def install(machine: Path, name: str) -> None:
    path = machine / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def call(file: str, code: str, torch: Any) -> None:
    """Run code as that of a file."""
    exec(compile(code, file, "exec"), {"torch": torch})


@pytest.mark.parametrize(
    ("file", "code", "said"),
    [
        pytest.param(SCRIPT, "torch.compile(1)", True, id="a script"),
        pytest.param(SCRIPT, "torch.compile(1, backend='inductor')", True, id="the backend by its name"),
        pytest.param(SCRIPT, "torch.compile(1, backend='eager')", False, id="a backend without a compiler"),
        pytest.param(PACKAGE, "torch.compile(1)", False, id="a library"),
    ],
)
def test_a_script_is_told_once(file: str, code: str, said: bool, capsys: pytest.CaptureFixture[str]) -> None:
    done: list[Any] = []
    torch = SimpleNamespace(compile=lambda *words, **options: done.append(words))
    watch_compile(torch)
    for _ in range(2):
        call(file, code, torch)

    assert done == [(1,), (1,)], "what was asked for is done"
    assert capsys.readouterr().err.count("this image has no C++ compiler") == int(said)


def test_module_compile_is_the_script_s(capsys: pytest.CaptureFixture[str]) -> None:
    torch = SimpleNamespace(compile=lambda *words: None)
    watch_compile(torch)
    spaces: dict[str, Any] = {"torch": torch}
    exec(
        compile("def compile_module(): torch.compile(1)", "/usr/lib/site-packages/torch/nn/modules/module.py", "exec"),
        spaces,
    )
    exec(compile("compile_module()", SCRIPT, "exec"), spaces)

    assert "no C++ compiler" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "variable"), [("g++", ""), ("clang++", "clang++")])
def test_with_a_compiler_torch_is_left_alone(
    name: str, variable: str, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(machine, name)
    monkeypatch.setenv("CXX", variable)
    torch = SimpleNamespace(compile=print)
    watch_compile(torch)

    assert torch.compile is print


@pytest.mark.parametrize(
    ("rank", "given", "said"),
    [
        ("0", {"torch_compile": True, "torch_compile_backend": "inductor"}, True),
        ("1", {"torch_compile": True, "torch_compile_backend": "inductor"}, False),
        ("0", {"torch_compile": True, "torch_compile_backend": "eager"}, False),
        ("0", {"torch_compile": False, "torch_compile_backend": None}, False),
    ],
)
def test_arguments_of_a_trainer_are_read_as_it_does(
    rank: str, given: dict[str, Any], said: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Arguments:
        def __post_init__(self) -> None:
            vars(self).update(given)

    monkeypatch.setenv("RANK", rank)
    watch_arguments(SimpleNamespace(TrainingArguments=Arguments))
    Arguments().__post_init__()

    assert ("torch_compile=True" in capsys.readouterr().err) == said
