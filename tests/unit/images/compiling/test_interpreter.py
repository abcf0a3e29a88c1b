"""How a Python that is unpacked below a directory is started, whatever the directory is called."""

from __future__ import annotations

from pathlib import Path

from images.compiling import interpreter
from images.platforms import AMD64


def test_the_loader_finds_libraries_below_any_directory(tmp_path: Path) -> None:
    """It splits its list of places at colons, and would look for libraries of this machine instead."""
    root = tmp_path / "a:b"
    own = root / "usr/lib/x86_64-linux-gnu"
    own.mkdir(parents=True)
    (own / "ld-linux-x86-64.so.2").touch()

    loader, option, places, python = interpreter.interpreter_command(root, interpreter.Packaged(AMD64, "3.11", (), ""))

    assert (loader, option) == (str(own / "ld-linux-x86-64.so.2"), "--library-path")
    assert {root / place for place in places.split(":")} == {root / "usr/lib", own}
    assert python == str(root / "usr/bin/python3.11")
