"""What happens at the start of a Python process, when a library is imported, and at the end."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import json
import os
import pickle
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from multinode_image.hooks import after_import, at_exit, at_start
from multinode_image.hooks.after_import import Finder
from multinode_image.hooks.at_exit import end
from multinode_image.hooks.ends import ending
from multinode_image.hooks.job.one_job import Fault
from multinode_image.hooks.job.reason import read_reason
from multinode_image.hooks.job.word import WORD
from multinode_image.settings import BEGAN, TRAINING

DISTRIBUTED = "torch.distributed.distributed_c10d"
FILE = "TORCHELASTIC_ERROR_FILE"
ELASTIC = "TORCHELASTIC_RUN_ID"

NAME = "watched_by_us"
TEXT = "import threading\nTIMES = 1\nclass Here: pass\n"


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    """Watch one module, which lies in a directory of its own; return what was done."""
    loaded: list[ModuleType] = []
    (tmp_path / f"{NAME}.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [Finder({NAME: loaded.append}), *sys.meta_path])
    yield loaded
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


@pytest.mark.parametrize("handled", [True, False])
def test_a_warning_of_a_scheduler_means_what_sigterm_means(monkeypatch: pytest.MonkeyPatch, handled: bool) -> None:
    """Unless the script handles it."""
    handlers = {number: (print if handled else signal.SIG_DFL) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    sent: list[int] = []
    monkeypatch.setattr(signal, "getsignal", handlers.get)
    monkeypatch.setattr(signal, "signal", lambda number, handler: handlers.update({number: handler}))
    monkeypatch.setattr(os, "kill", lambda _, number: sent.append(number))
    at_start.take_warnings()
    for number, handler in handlers.items():
        if handler is not print:
            handler(number, None)  # type: ignore[operator]
    assert sent == ([] if handled else [signal.SIGTERM] * 2)


USERS = {
    "json.py": "def after_import(module): module.seen.append('own')",
    "my.module.py": "def after_import(module): module.seen.append(module.name)",
    "fails.py": "def after_import(module): raise KeyError('why')",
    "misspelt.py": "def after_imports(module): pass",
    "broken.py": "import",
    "README": "def after_import(module): module.seen.append('no')",
}


@pytest.mark.parametrize(
    ("name", "seen", "said"),
    [
        ("json", ["own"], ""),
        ("my.module", ["my.module"], ""),
        ("fails", [], "fails.py does not work here: KeyError('why')"),
        ("misspelt", [], "misspelt.py does not work here: AttributeError"),
        ("broken", [], "broken.py does not work here: SyntaxError"),
    ],
)
def test_a_file_of_the_users_own_is_run_after_the_module_of_its_name(
    name: str, seen: list[str], said: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(after_import, "FAILED", [])
    monkeypatch.delenv("RANK", raising=False)
    for file, text in USERS.items():
        (tmp_path / file).write_text(text)
    module = SimpleNamespace(seen=[], name=name)

    actions = at_start.list_actions(str(tmp_path))
    actions[name](module)

    assert module.seen == seen and (said in (err := capsys.readouterr().err)) and bool(said) == bool(err)
    assert set(actions) == {*at_start.ROWS, "json", "my.module", "fails", "misspelt", "broken"}
    assert set(at_start.list_actions(str(tmp_path / "none"))) == {*at_start.ROWS}


def test_a_file_of_the_users_own_comes_after_our_own_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(at_start, "ROWS", {"json": ("data.order.nothing",)})
    monkeypatch.setattr(at_start, "act", lambda name, _: order.append(name))
    (tmp_path / "json.py").write_text("def after_import(module): module.append('own')")

    at_start.list_actions(str(tmp_path))["json"](order)

    assert order == ["data.order.nothing", "own"]


def test_a_hook_that_fails_says_so_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(after_import, "FAILED", [])
    monkeypatch.setenv("RANK", "0")
    for _ in range(2):
        at_start.act("data.order.nothing_of_this_name", None)
    assert capsys.readouterr().err.count("order.nothing_of_this_name does not work here") == 1


@pytest.mark.parametrize(
    ("environ", "asked"),
    [({}, False), ({"WORLD_SIZE": "2"}, True), ({"WORLD_SIZE": "2", ELASTIC: "1"}, False),
     ({"WORLD_SIZE": "2", WORD: "none"}, False)],
)  # fmt: skip
@pytest.mark.parametrize("text", ["trained", ""])
def test_others_are_waited_for_where_nobody_else_knows_how_they_end(
    environ: dict[str, str], asked: bool, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All ranks wait, and rank 0 has something to say."""
    waited = list[object]()

    def wait(module: object) -> str:
        waited.append(module)
        return "; rank 1 has not ended"

    monkeypatch.setattr(ending, "describe_others", wait)

    at_exit.say_job(text, {DISTRIBUTED: 1}, environ)

    assert waited == [1] * asked
    said = f"multinode: {text}{'; rank 1 has not ended' * asked}\n" if text else ""
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("leaves", [True, False])
def test_a_rank_that_was_ended_leaves_word_and_no_process_that_it_has_started(leaves: bool, tmp_path: Path) -> None:
    number = os.getpid() if leaves else 1
    path = tmp_path / "error.json"
    fault = Fault("this process trains by itself", "rank 1", "init_process_group")
    modules = {"multinode_image.hooks.job.one_job": SimpleNamespace(TOLD=[fault])}

    end(modules, {FILE: str(path), TRAINING: str(number)})

    assert path.exists() == leaves
    if leaves:
        assert read_reason(SimpleNamespace(message=json.loads(path.read_text())["message"])) == fault


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {"NODE_RANK": None, TRAINING: None}),
        ({"GROUP_RANK": "1", "RANK": "2"}, {"NODE_RANK": "1", TRAINING: "here"}),
        ({"GROUP_RANK": "1", "NODE_RANK": "3", "RANK": "0", TRAINING: "7"}, {"NODE_RANK": "3", TRAINING: "7"}),
        ({"RANK": "0", TRAINING: "on"}, {"NODE_RANK": None, TRAINING: "here"}),
        ({TRAINING: "on", BEGAN: "5"}, {TRAINING: "on", BEGAN: "5"}),
    ],
)
def test_a_process_begins_with_what_ranks_and_hooks_read(
    environ: dict[str, str], expected: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    done, hidden = list[object](), list[object]()
    for name in ("GROUP_RANK", "NODE_RANK", "RANK", TRAINING, BEGAN):
        monkeypatch.setenv(name, "")  # so that what is set here is gone afterwards
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(at_exit, "reserve_files", lambda: done.append("files"))
    monkeypatch.setattr(at_exit, "watch_status", lambda: done.append("status"))
    monkeypatch.setattr(at_start, "take_warnings", lambda: done.append("warnings"))
    monkeypatch.setattr(at_start.atexit, "register", lambda *given: done.append(given))  # type: ignore[attr-defined]
    monkeypatch.setattr(at_start.warnings, "filterwarnings", lambda *given: hidden.append(given))  # type: ignore[attr-defined]
    theirs = [*sys.meta_path]
    monkeypatch.setattr(sys, "meta_path", [*theirs])
    monkeypatch.setattr(time, "time_ns", lambda: 12)

    at_start.main()

    assert done == ["files", (end, sys.modules, os.environ), "status", "warnings"]
    assert isinstance(sys.meta_path[0], Finder) and sys.meta_path[1:] == theirs
    wanted = {BEGAN: "12", **expected}
    here = {name: str(os.getpid()) if value == "here" else value for name, value in wanted.items()}
    assert {name: os.environ.get(name) for name in here} == here
    assert len(hidden) == (environ.get("RANK", "0") != "0")


@pytest.mark.parametrize(("finders", "begins"), [([], True), ([after_import.Finder({})], False), ([object()], True)])
def test_a_python_that_reads_the_pth_file_twice_has_its_hooks_once(
    finders: list[Any], begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Begun(Exception):
        """In the place of what is done first."""

    def begin() -> None:
        raise Begun

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, *finders])
    monkeypatch.setattr(at_exit, "reserve_files", begin)
    with pytest.raises(Begun) if begins else contextlib.nullcontext():
        at_start.main()
