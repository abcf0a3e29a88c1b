"""What is done once a module has been imported, and what a script can see of it."""

from __future__ import annotations

import importlib
import importlib.abc
import pickle
import sys
import threading
import zipfile
from collections.abc import Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from multinode_image.hooks.after_import import Finder

NAME = "watched_by_us"
TEXT = "import threading\nTIMES = 1\nclass Here: pass\n"


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    """Watch one module, which lies in a directory of its own; return what was done."""
    found: list[ModuleType] = []
    (tmp_path / f"{NAME}.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [Finder({NAME: found.append}), *sys.meta_path])
    yield found
    sys.modules.pop(NAME, None)


def load() -> Any:
    return importlib.import_module(NAME)


def test_a_module_is_there_when_something_is_done_with_it(done: list[Any]) -> None:
    module = load()

    assert load() is module and done == [module] and done[0].TIMES == 1


def test_spec_and_loader_are_those_of_any_module(done: list[Any]) -> None:
    module, usual = load(), PathFinder.find_spec(NAME)

    assert usual is not None and type(module.__loader__) is SourceFileLoader
    assert module.__spec__.loader is module.__loader__ and vars(module.__loader__) == vars(usual.loader)
    assert (module.__spec__.origin, module.__file__) == (usual.origin, usual.origin)
    assert pickle.loads(pickle.dumps(module.Here())).__class__ is module.Here


def test_a_reload_does_it_again(done: list[Any]) -> None:
    module = load()
    module.TIMES = 2

    assert importlib.reload(module) is module
    assert done == [module, module] and module.TIMES == 1


def test_threads_that_import_at_once_get_one_module(done: list[Any]) -> None:
    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert done == [sys.modules[NAME]]


@pytest.mark.parametrize("error", [ValueError, ImportError])
def test_an_error_of_ours_ends_no_import(error: type[Exception], done: list[Any]) -> None:
    def fail(_: ModuleType) -> None:
        raise error

    sys.meta_path.insert(0, Finder({NAME: fail}))

    assert load().TIMES == 1


def test_an_error_of_the_module_is_its_own(done: list[Any], tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.py").write_text("raise LookupError('here')")

    with pytest.raises(LookupError, match="here"):
        load()

    assert not done and NAME not in sys.modules
    (tmp_path / f"{NAME}.py").write_text("TIMES = 22")
    importlib.invalidate_caches()
    assert load().TIMES == 22 and len(done) == 1


class Other(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder of somebody else that knows the module, and is its loader; it has no place for what is ours."""

    __slots__ = ()

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == NAME else None

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["TIMES"] = 3


class Old:
    """A finder of before Python 3.4."""


def test_finders_of_others_are_asked_as_ever(done: list[Any]) -> None:
    sys.meta_path[1:1] = [Old(), Other()]  # type: ignore[list-item]

    assert load().TIMES == 3


def test_only_what_is_in_the_table_is_watched(done: list[Any], tmp_path: Path) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:  # whose modules have one loader
        packed.writestr(f"{NAME}.py", "import packed_beside\nTIMES = 4")
        packed.writestr("packed_beside.py", "")
    sys.path.insert(0, str(archive))
    try:
        assert load().TIMES == 4 and done == [sys.modules[NAME]]
    finally:
        sys.path.remove(str(archive))
        sys.modules.pop("packed_beside", None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("watched_by_nobody")
