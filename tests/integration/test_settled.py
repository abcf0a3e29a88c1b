"""Bytecode of Pythons before 3.11: the same from every process, and made with nothing that lies about."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from images.layers import bytecode

OLD = [name for name in ("python3.8", "python3.9", "python3.10") if shutil.which(name)]
MODULES = {
    "words.py": "x in {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}",
    "none.py": "x in {None, 'a', 'b', 'c', 'd', 'e', 'f', 'g'}",
}


def compiled(python: str, place: Path, programs: Path = bytecode.WORKER.parent) -> bytes:
    """Compile MODULES as for a base; return what was written."""
    wheel, out = place / "a.whl", place / "out"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in MODULES.items():
            archive.writestr(name, text)
    paths = [programs / program.name for program in (bytecode.SETTLED, bytecode.WORKER)]
    arguments = [*map(str, paths), str(wheel), str(out), "/site", "0", "(?!)"]
    done = subprocess.run(
        [python, "-s", "-S", "-B", *arguments], cwd=place, env={"PYTHONHASHSEED": "0"}, capture_output=True, timeout=60
    )
    if done.returncode == 127:
        pytest.skip(f"{python} does not start here")
    assert (done.returncode, done.stderr) == (0, b"")
    return out.read_bytes()


@pytest.mark.parametrize("name", OLD)
def test_it_is_the_same_from_every_process(tmp_path: Path, name: str) -> None:
    first, *others = [compiled(str(shutil.which(name)), tmp_path) for _ in range(8)]

    assert set(others) == {first}
    with zipfile.ZipFile(tmp_path / "out") as out:
        assert out.namelist() == ["words.py"]


def test_files_beside_the_programs_and_in_the_directory_hide_no_module(tmp_path: Path) -> None:
    expected = compiled(sys.executable, tmp_path)
    programs = tmp_path / "programs"
    shutil.copytree(bytecode.WORKER.parent, programs)
    for name in ("re", "runpy", "types", "zipfile"):
        for place in (tmp_path, programs):
            (place / f"{name}.py").write_text("raise SystemExit('hidden')")

    assert compiled(sys.executable, tmp_path, programs) == expected
