"""Bytecode of Pythons before 3.11: the same from every process, and made with nothing that lies about."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from images.compiling import bytecode

OLD = [name for name in ("python3.8", "python3.9", "python3.10") if shutil.which(name)]
MODULES = {
    "words.py": "x in {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}",
    "none.py": "x in {None, 'a', 'b', 'c', 'd', 'e', 'f', 'g'}",
}


def compiled(python: str, place: Path) -> bytes:
    """Compile MODULES as for a base; return what was written."""
    entries = ((name.encode(), text.encode()) for name, text in MODULES.items())
    given = b"".join(b"%d %d\n%s%s" % (len(name), len(text), name, text) for name, text in entries)
    program = f"{bytecode.SETTLE.read_text()}\n{bytecode.WORKER.read_text()}"
    done = subprocess.run(
        [python, "-s", *bytecode.QUIET, "-c", program, "0", ""], input=given + b"0 0\n", cwd=place,
        env={"PYTHONHASHSEED": "0"}, capture_output=True, timeout=60,
    )  # fmt: skip
    if done.returncode == 127:
        pytest.skip(f"{python} does not start here")
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize("name", OLD)
def test_it_is_the_same_from_every_process(tmp_path: Path, name: str) -> None:
    first, *others = [compiled(str(shutil.which(name)), tmp_path) for _ in range(8)]

    assert set(others) == {first}
    assert b"words.py" in first and b"none.py" not in first


def test_files_in_the_directory_hide_no_module(tmp_path: Path) -> None:
    expected = compiled(sys.executable, tmp_path)
    for name in ("marshal", "types", "warnings", "importlib", "posix"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hidden')")

    assert compiled(sys.executable, tmp_path) == expected
