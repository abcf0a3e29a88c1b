"""The last look: what is imported, and that it is done once."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from images.host.errors import WorldFault
from images.host.store import Store
from images.inspection import import_check
from images.oci.image import Image
from images.oci.layer import Layer, Written

PARTS = tuple(Layer(name, Written(name, name, 1, 1), reused=False) for name in ("base", "torch", "multinode"))


class Python:
    """An interpreter that says what it is told to, and remembers what it was asked."""

    def __init__(self, says: str | None) -> None:
        self.says = says
        self.asked: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> str | None:
        self.asked.append(list(arguments[1:]))
        return self.says


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def look(store: Store, python: Python, parts: tuple[Layer, ...] = PARTS) -> bool:
    return import_check.imports(Image(("a:b",), b"{}", b"{}", parts), ["six", "torch"], python, store, "what to do")


def test_equal_layers_below_ours_are_looked_at_once(store: Store) -> None:
    python = Python(None)
    ours = Layer("multinode", Written("other", "other", 1, 1), reused=False)
    new = Layer("torch", Written("new", "new", 1, 1), reused=False)

    done = [look(store, python, parts) for parts in (PARTS, PARTS, (*PARTS[:2], ours), (PARTS[0], new, ours))]

    assert done == [True, False, False, True]
    assert python.asked == [["six", "torch"]] * 2


def test_what_cannot_be_imported_is_named_each_time(store: Store) -> None:
    python = Python("six (ImportError: no)")

    for _ in range(2):
        with pytest.raises(WorldFault, match=r"cannot be imported: six \(ImportError: no\)\n  try: what to do"):
            look(store, python)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            "ipex (ModuleNotFoundError: No module named 'setuptools')",
            "names the package that has the module setuptools",
        ),
        (
            "a (ModuleNotFoundError: No module named 'c'); b (ModuleNotFoundError: No module named 'b2')",
            "for the package that imports it; `requires` names the package that has the module b2, c",
        ),
        ("a (ModuleNotFoundError: No module named 'torch.gone')", "what to do"),
        ("a (ImportError: cannot import name 'gone' from 'torch')", "what to do"),
        ("a (NameError: No module named 'c')", "what to do"),
    ],
)
def test_a_module_that_no_package_has_is_what_the_remedy_is_about(store: Store, said: str, remedy: str) -> None:
    with pytest.raises(WorldFault) as caught:
        look(store, Python(said))

    assert caught.value.remedy.endswith(remedy)


def test_a_python_that_finds_no_module_at_all_looks_elsewhere(store: Store) -> None:
    said = [f"{name} (ModuleNotFoundError: No module named '{name}')" for name in ("six", "torch")]

    with pytest.raises(WorldFault, match=r"does not look into the directory .* none of their 2 modules, such as six"):
        look(store, Python("; ".join(said)))
    with pytest.raises(WorldFault, match=r"(?s)cannot be imported: six .* \[\[undeclared\]\]"):
        look(store, Python(said[0]))


def test_modules_are_those_at_the_top(tmp_path: Path) -> None:
    paths = ("one/__init__.py", "one/part.py", "two.py", "three.cpython-311-x86_64-linux-gnu.so", "four/data.py",
             "setuptools/__init__.py", "five-1.dist-info/RECORD", "not-a-name.py", "../../../bin/six")  # fmt: skip
    with zipfile.ZipFile(tmp_path / "five-1-py3-none-any.whl", "w") as archive:
        archive.writestr("five-1.dist-info/RECORD", "".join(f"{path},,\n" for path in paths))

    assert import_check.modules(tmp_path / "five-1-py3-none-any.whl") == ["one", "three", "two"]


def test_modules_of_several_wheels_are_read_once(tmp_path: Path, store: Store) -> None:
    wheels = []
    for name, rows in (("five", "one.py,,\ntwo.py,,\n"), ("six", "two.py,,\nzero.py,,\n")):
        path = tmp_path / f"{name}-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{name}-1.dist-info/RECORD", rows)
        wheels.append((f"{len(name):064x}", path))

    assert import_check.modules_of(store, wheels) == ["one", "two", "zero"]
    for _, path in wheels:
        path.unlink()
    assert import_check.modules_of(store, wheels[::-1]) == ["one", "two", "zero"]
