"""The start and the end of a program: its ^C, modules that cannot be imported, a stdout that is gone."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from images import startup
from images.startup import explain_import

Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [(signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)],
)
def test_an_interrupt_has_no_traceback_until_it_is_handled_and_stays_ignored_where_it_is(
    before: Handler, meanwhile: Handler
) -> None:
    kept = signal.signal(signal.SIGINT, before)
    try:
        startup.end_at_interrupt()
        assert signal.getsignal(signal.SIGINT) == meanwhile
        startup.raise_interrupts()
        assert signal.getsignal(signal.SIGINT) == before
    finally:
        signal.signal(signal.SIGINT, kept)


# Why a module cannot be imported, in words that say what to type.

FILES = {
    "lacks a part": ("__version__ = '20.0'", "shadow_one.version", "PYTHONPATH"),
    "lacks a name": ("", "shadow_one:Version", "PYTHONPATH"),
    "is no Python": ("def:", "shadow_one", "PYTHONPATH"),
    "fails": ("{}['a']", "shadow_one", "PYTHONPATH"),
}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("shadow_one")]:
        del sys.modules[name]


def failure(name: str) -> Exception:
    """Return the error of an import; behind a colon is a name of the module."""
    module, _, part = name.partition(":")
    try:
        if part:
            exec(f"from {module} import {part}", {})
        importlib.import_module(module)
    except Exception as error:
        return error
    raise AssertionError(name)


@pytest.mark.parametrize(("text", "name", "said"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_module_of_pythonpath_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str, said: str, *, is_named: bool
) -> None:
    (tmp_path / "shadow_one").mkdir()
    (tmp_path / "shadow_one/__init__.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    fault = explain_import(failure(name), {"PYTHONPATH": f"/nowhere:{tmp_path}"} if is_named else {})

    assert ("PYTHONPATH" in str(fault)) is is_named
    assert not is_named or f"{tmp_path}/shadow_one/__init__.py" in str(fault)


def test_what_is_missing_is_named_and_other_errors_are_not_explained(tmp_path: Path) -> None:
    assert "a Python package is missing: shadow_two" in str(explain_import(failure("shadow_two"), {}))
    assert "cannot be used" in str(explain_import(ImportError("libz.so: cannot open shared object file"), {}))
    assert explain_import(KeyError("a"), {"PYTHONPATH": str(tmp_path)}) is None
