"""What a training computes with: compiled code and units for bf16; torch is made up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks.compute import bf16_units, compiler
from multinode_image.hooks.compute.bf16_units import (
    DISTRIBUTED,
    KEY,
    NO,
    YES,
    computes,
    must_use_float32,
    watch_groups,
)
from multinode_image.hooks.compute.compiler import watch_arguments, watch_compile
from multinode_image.machine.limits import BF16_UNITS
from multinode_image.settings import BF16

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


WITH, WITHOUT, UNKNOWN = frozenset({"amx_bf16"}), frozenset[str](), None


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bf16_units, "KNOWN", bf16_units.Known())
    read = bf16_units.read_units
    read.cache_clear()
    yield
    read.cache_clear()


@pytest.mark.parametrize(
    ("line", "units"),
    [
        *((f"flags\t\t: fpu {unit} sse", {unit}) for unit in BF16_UNITS),
        ("Features\t: fp asimd bf16", {"bf16"}),
        ("flags\t\t: fpu avx512_bf16x sse", set()),
        ("model name\t: bf16", None),
        ("flags\t\t:", None),
        ("", None),
    ],
)
def test_units_are_those_that_the_kernel_names(tmp_path: Path, line: str, units: set[str] | None) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\nbugs\t\t: none\n")
    assert bf16_units.read_units(tmp_path / "cpuinfo") == units
    assert bf16_units.read_units(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("units", "word", "does"),
    [
        (WITH, "", True), (UNKNOWN, "", True), (WITHOUT, "", False), (WITHOUT, "emulate", True),
        (WITHOUT, " emulate ", True), (WITHOUT, "1", False),
    ],
)  # fmt: skip
def test_a_rank_computes_in_bf16_with_a_unit_or_where_the_user_insists(
    monkeypatch: pytest.MonkeyPatch, units: frozenset[str] | None, word: str, does: bool
) -> None:
    monkeypatch.setattr(bf16_units, "read_units", lambda: units)
    monkeypatch.setenv(BF16, word)
    monkeypatch.delitem(sys.modules, DISTRIBUTED, raising=False)
    assert computes() is does and must_use_float32() is not does


class Store(dict[str, bytes]):
    """A job's store whose keys are all there, or are waited for in vain."""

    def set(self, key: str, value: bytes) -> None:
        self[key] = value

    def wait(self, keys: list[str], _: object) -> None:
        if not self.keys() >= set(keys):
            raise RuntimeError("Timeout waiting for the keys")


def form(monkeypatch: pytest.MonkeyPatch, store: Any, size: int) -> Any:
    """Make up torch's module with the group of rank 0, which has formed."""
    group = object()
    module = SimpleNamespace(
        is_initialized=lambda: True,
        get_rank=lambda: 0,
        get_world_size=lambda: size,
        init_process_group=lambda: "formed",
        _get_default_group=lambda: group,
        _get_default_store=lambda: store,
    )
    monkeypatch.setitem(sys.modules, DISTRIBUTED, module)
    monkeypatch.delenv(BF16, raising=False)
    watch_groups(module)
    assert module.init_process_group() == "formed"
    return module


@pytest.mark.parametrize(
    ("mine", "others", "float32"),
    [
        (WITH, [YES], False), (WITH, [YES, NO], True), (WITH, [NO, YES], True), (UNKNOWN, [NO], True),
        (WITHOUT, [YES], True), (WITH, [], False),
    ],
)  # fmt: skip
def test_all_ranks_compute_in_what_every_one_of_them_can(
    monkeypatch: pytest.MonkeyPatch, mine: frozenset[str] | None, others: list[bytes], float32: bool
) -> None:
    monkeypatch.setattr(bf16_units, "read_units", lambda: mine)
    store = Store({KEY.format(rank): said for rank, said in enumerate(others, 1)})
    form(monkeypatch, store, len(others) + 1)

    assert store[KEY.format(0)] == (NO if mine == WITHOUT else YES)
    assert must_use_float32() is float32
    store[KEY.format(1)] = YES
    assert must_use_float32() is float32  # a group is asked once
    form(monkeypatch, Store({KEY.format(1): NO}), 2)
    assert must_use_float32()  # another group is asked anew


@pytest.mark.parametrize("store", [Store(), None])
def test_a_rank_that_says_nothing_and_a_group_without_a_store_change_nothing(
    monkeypatch: pytest.MonkeyPatch, store: Any
) -> None:
    monkeypatch.setattr(bf16_units, "read_units", lambda: WITH)
    form(monkeypatch, store, 2)
    assert not must_use_float32()


@pytest.mark.parametrize(("units", "taken"), [(WITH, True), (WITHOUT, True), (UNKNOWN, False)])
def test_the_trainer_takes_bf16_without_use_cpu(
    monkeypatch: pytest.MonkeyPatch, units: frozenset[str] | None, taken: bool
) -> None:
    monkeypatch.setattr(bf16_units, "read_units", lambda: units)
    module = SimpleNamespace(is_torch_bf16_gpu_available=lambda: False)
    bf16_units.allow_bf16(module)
    assert module.is_torch_bf16_gpu_available() is taken


def test_that_of_another_rank_is_named_once_for_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bf16_units, "computes", lambda: True)
    monkeypatch.setattr(bf16_units, "find_lacking", lambda: 3)
    for rank, lines in (("1", 0), ("0", 1)):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setattr(bf16_units, "KNOWN", bf16_units.Known())
        for _ in range(2):
            bf16_units.say_float32("autocast")
        assert capsys.readouterr().err.count("because the processor of rank 3 has none of") == lines
