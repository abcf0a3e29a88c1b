"""Which files and which bytecode are left out of an image, and what stays beside them."""

from __future__ import annotations

import pytest

from images.content import Content
from images.layers import trim

MODELS = "transformers/models"


@pytest.mark.parametrize(
    ("project", "path", "left_out"),
    [
        ("torch", "torch/test/a.py", True),
        ("torch", "torch/testing/_comparison.py", False),
        ("torch", "torch/lib/libtorchbind_test.so", True),
        ("torch", "torch/lib/libtorch_cpu.so", False),
        ("impi-rt", "data/opt/mpi/etc/tuning_spr_shm-ofi.dat", True),
        ("impi-rt", "data/opt/mpi/etc/tuning_generic_shm-ofi.dat", False),
        ("tqdm", "images/tqdm.gif", True),
        ("tqdm", "tqdm/auto.py", False),
    ],
)
def test_files_that_nobody_needs_are_left_out(project: str, path: str, left_out: bool) -> None:
    assert bool(trim.trimmed_pattern(project, Content()).match(path)) == left_out


@pytest.mark.parametrize(
    ("project", "path", "compiled"),
    [
        ("transformers", f"{MODELS}/bert/modeling_bert.py", True),
        ("transformers", f"{MODELS}/bert_generation/modeling_bert_generation.py", False),
        ("transformers", f"{MODELS}/whisper/modeling_whisper.py", False),
        ("transformers", f"{MODELS}/whisper/configuration_whisper.py", True),
        ("transformers", f"{MODELS}/whisper/__init__.py", True),
        ("transformers", f"{MODELS}/__init__.py", True),
        ("transformers", "transformers/trainer.py", True),
        ("torch", "torch/_inductor/config.py", True),
        ("torch", "torch/_inductor/configs_of_others.py", False),
        ("torch", "torch/_inductor/codegen/cpp.py", False),
        ("torch", "torch/test/a.py", False),
        ("torch", "torchgen/model.py", True),
        ("torch", "torchgen/api/cpp.py", False),
        ("torch", "torch/_inductor/runtime/hints.py", True),
        ("torch", "torch/_inductor/runtime/hints_of_others.py", False),
        ("torch", "torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py", True),
        ("torch", "torch/onnx/_internal/torchscript_exporter/symbolic_opset13.py", False),
        ("pandas", "pandas/io/formats/csvs.py", True),
        ("pandas", "pandas/io/formats/style.py", False),
        ("transformers", "transformers/models/bert/modular_bert.py", False),
        ("transformers", "transformers/models/bert/modeling_bert.py", True),
        ("pip", "pip/__main__.py", False),
        ("anything", "anything/tests/a.py", True),
    ],
)
def test_modules_that_no_task_imports_have_no_bytecode(project: str, path: str, compiled: bool) -> None:
    left_out = {project: trim.trimmed_pattern(project, Content())}
    assert (trim.uncompiled_patterns(left_out, Content())[project].match(path) is None) == compiled


def test_without_trimming_every_module_has_bytecode() -> None:
    whole = Content(trim=False)
    nothing = {project: trim.trimmed_pattern(project, whole) for project in {**trim.TABLE, **trim.UNCOMPILED}}
    assert not any(one.match("") for one in trim.uncompiled_patterns(nothing, whole).values())
    assert {one.pattern for one in nothing.values()} == {"(?!)"}


def test_what_something_imports_stays_and_has_bytecode() -> None:
    left_out = {"numpy": trim.trimmed_pattern("numpy", Content(), ["numpy/tests/a+b.py"])}
    omitted = trim.uncompiled_patterns(left_out, Content())
    paths = ("numpy/tests/a+b.py", "numpy/tests/a+b.pyc", "numpy/tests/c.py", "numpy/distutils/a.py")

    assert [bool(left_out["numpy"].match(path)) for path in paths] == [False, True, True, False]
    assert [bool(omitted["numpy"].match(path)) for path in paths] == [False, True, True, True]
