"""Which files and which bytecode are left out of an image, and what stays beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from images.content import Content
from images.layers import trim
from images.layers.trim import Patterns, choose_left_out, find_left_out
from images.store.store import Store
from images.wheels.archive import Wheel
from tests.support import elf, locks
from tests.support.wheels import pack

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


# Wheels of any release -> what is left out of them: never what another module of the image imports.

Files = Mapping[str, bytes]
TESTS = "numpy/_core/tests"
NUMPY: Files = {
    "numpy/__init__.py": b"", f"{TESTS}/__init__.py": b"", f"{TESTS}/_natype.py": b"import os\nfrom ._more import x\n",
    f"{TESTS}/_more.py": b"", f"{TESTS}/test_a.py": b"from . import test_b", f"{TESTS}/test_b.py": b"",
    "numpy/tests/test_c.py": b"",
}  # fmt: skip
FLIGHT = "pyarrow/_flight.cpython-311-x86_64-linux-gnu.so"
PYARROW: Files = {
    "pyarrow/__init__.py": b"", "pyarrow/flight.py": b"from pyarrow._flight import *",
    FLIGHT: elf.library(links=["libarrow_flight.so.9", "libc.so.6"]),
    "pyarrow/libarrow_flight.so.9": elf.library(links=["libarrow_python_flight.so.9", "libarrow.so.9"]),
    "pyarrow/libarrow_python_flight.so.9": elf.library(), "pyarrow/libarrow.so.9": elf.library(),
    "pyarrow/tests/test_flight.py": b"import pyarrow.flight",
}  # fmt: skip
WITH_NATYPE = {f"{TESTS}/{name}.py" for name in ("__init__", "_natype", "_more")}
FLIGHTS = {path for path in PYARROW if path.startswith(("pyarrow/flight", "pyarrow/_flight", "pyarrow/libarrow_"))}
TRIMMED = {*NUMPY, *PYARROW} - {"numpy/__init__.py", "pyarrow/__init__.py", "pyarrow/libarrow.so.9"}


def list_wheels(directory: Path, files: Mapping[str, Files]) -> list[Wheel]:
    """Pack a wheel of each project: of numpy and pyarrow with these files more."""
    projects = {"numpy": NUMPY, "pyarrow": PYARROW}
    whole = {name: {**projects.get(name, {}), **files.get(name, {})} for name in {**projects, **files}}
    paths = {name: pack(directory, content, name) for name, content in whole.items()}
    return [Wheel(name, "1.0", f"{number:064x}", path) for number, (name, path) in enumerate(paths.items())]


def choose(wheels: list[Wheel], store: Path, *, trim: bool = True) -> Patterns:
    return choose_left_out(wheels, Content(trim=trim), locks.context(Store(store), None, {}))


def list_left_out(left_out: Patterns) -> set[str]:
    paths = {"numpy": NUMPY, "pyarrow": PYARROW}
    return {path for name, files in paths.items() for path in files if left_out[name].match(path)}


@pytest.mark.parametrize(
    ("files", "stay"),
    [
        ({}, set[str]()),
        ({"numpy": {"numpy/testing.py": b"from numpy._core.tests._natype import pd_NA"}}, WITH_NATYPE),
        ({"numpy": {"numpy/_core/a.py": b"if True:\n    from .tests import (\n      _natype,\n    )\n"}}, WITH_NATYPE),
        ({"numpy": {"numpy/a.py": b"from numpy._core.tests import _more"}}, WITH_NATYPE - {f"{TESTS}/_natype.py"}),
        ({"numpy": {"numpy/a.py": b"from ._core.tests import *"}}, {path for path in NUMPY if path.startswith(TESTS)}),
        ({"numpy": {"numpy/a.py": b"from numpy.tests_of_others import _natype"}}, set()),
        # A package runs its own tests; another one that imports them needs them.
        ({"numpy": {"numpy/a.py": b"def test():\n    from ._core.tests import _natype\n"}}, set()),
        ({"other": {"other.py": b"def test():\n    from numpy._core.tests import _natype\n"}}, WITH_NATYPE),
        ({"numpy": {"numpy/conftest.py": b"import numpy._core.tests._natype"}}, set()),
        ({"other": {"other-1.0.data/purelib/other.py": b"import numpy._core.tests._natype"}}, WITH_NATYPE),
        ({"other": {"other-1.0.data/scripts/other.py": b"import numpy._core.tests._natype"}}, set()),
        # What a compiled module is linked to comes with it.
        ({"other": {"other/api.py": b"try:\n    from pyarrow.flight import A\nexcept ImportError: ..."}}, FLIGHTS),
        ({"other": {"other/api.py": b"from pyarrow import dataset, flight"}}, FLIGHTS),
        ({"other": {"other/api.py": b"import pyarrow.flights_of_others"}}, set()),
    ],
)  # fmt: skip
def test_what_a_module_of_the_image_imports_is_not_left_out(
    tmp_path: Path, files: Mapping[str, Files], stay: set[str]
) -> None:
    left_out = choose(list_wheels(tmp_path / "wheels", files), tmp_path / "store")

    assert list_left_out(left_out) == TRIMMED - stay


def test_without_trimming_nothing_is_left_out(tmp_path: Path) -> None:
    left_out = choose(list_wheels(tmp_path / "wheels", {}), tmp_path / "store", trim=False)

    assert list_left_out(left_out) == set()


def test_imports_are_read_once_and_again_when_the_wheels_are_others(tmp_path: Path) -> None:
    wheels = list_wheels(tmp_path / "wheels", {})
    [first, other] = (choose(wheels, tmp_path / "store") for _ in range(2))
    added = list_wheels(tmp_path / "wheels", {"other": {"other.py": b"import pyarrow.flight"}})[2:]
    for wheel in wheels:
        wheel.path.unlink()  # a second look would fail

    assert first == other == choose(wheels, tmp_path / "store")
    with pytest.raises(FileNotFoundError):
        choose([*wheels, *added], tmp_path / "store")


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("sklearn (ModuleNotFoundError: No module named 'numpy._core.tests')", f"{TESTS}/__init__.py"),
        ("a (ImportError: it needs numpy._core.tests.)", f"{TESTS}/__init__.py"),
        ("a (ModuleNotFoundError: No module named 'numpy._core.tests.test_a')", f"{TESTS}/test_a.py"),
        ("a (ImportError: cannot import name 'tests' from 'numpy._core' (/usr/lib/a.py)); b", f"{TESTS}/__init__.py"),
        ("a (ImportError: libarrow_flight.so.9: cannot open shared object file)", "pyarrow/libarrow_flight.so.9"),
        ("a (FileNotFoundError: [Errno 2] No such file: '/usr/numpy/tests/test_c.py')", "numpy/tests/test_c.py"),
        ("a (ModuleNotFoundError: No module named 'numpy')", None),
        ("a (ValueError: no test_c.py)", None),
        ("a (ModuleNotFoundError: No module named 'numpy._core.tests_of_others')", None),
        ("a (ModuleNotFoundError: No module named 'other.numpy.tests')", None),
        ("a (ImportError: cannot import name 'other' from 'numpy._core' (/usr/lib/numpy/_core/__init__.py))", None),
        ("a (ImportError: libarrow_flight.so.99: cannot open shared object file)", None),
    ],
)  # fmt: skip
def test_what_was_left_out_is_found_in_what_python_says(tmp_path: Path, said: str, path: str | None) -> None:
    wheels = list_wheels(tmp_path / "wheels", {})

    assert find_left_out(said, wheels, choose(wheels, tmp_path / "store")) == path
    assert find_left_out(said, wheels, choose(wheels, tmp_path / "store", trim=False)) is None
