"""How a Python that is unpacked below a directory is started, whatever the directory is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.compiling import compiler
from images.platforms import AMD64
from images.store.store import Store

PYTHON = compiler.Packaged(AMD64, "3.11", (), "")


def test_the_loader_finds_libraries_below_any_directory(tmp_path: Path) -> None:
    """It splits its list of places at colons, and would look for libraries of this machine instead."""
    root = tmp_path / "a:b"
    own = root / "usr/lib/x86_64-linux-gnu"
    own.mkdir(parents=True)
    (own / "ld-linux-x86-64.so.2").touch()

    loader, option, places, python = compiler.interpreter_command(root, PYTHON)

    assert (loader, option) == (str(own / "ld-linux-x86-64.so.2"), "--library-path")
    assert {root / place for place in places.split(":")} == {root / "usr/lib", own}
    assert python == str(root / "usr/bin/python3.11")


def test_of_two_builds_at_once_both_take_what_the_first_has_unpacked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = store.tree([PYTHON.identity, PYTHON.path])

    def fill(root: Path, _: compiler.Packaged) -> None:
        root.mkdir()
        (there / "usr").mkdir(parents=True)

    monkeypatch.setattr(compiler, "_fill", fill)

    assert compiler.unpack(store, PYTHON) == there
    assert [path.name for path in there.iterdir()] == ["usr"]


def test_what_cannot_be_moved_into_the_store_is_no_interpreter(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_fill", lambda *_: None)

    with pytest.raises(OSError, match="No such file"):
        compiler.unpack(store, PYTHON)
