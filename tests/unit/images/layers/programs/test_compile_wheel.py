"""Which modules of a wheel get bytecode, and what it says of its source."""

from __future__ import annotations

import marshal
import zipfile
from pathlib import Path

import pytest

from images.layers.programs import compile_wheel

MTIME = 1_704_067_200
HEADER = 16  # bytes (PEP 552)


def made(tmp_path: Path, files: dict[str, str], left_out: str = "(?!)") -> dict[str, bytes]:
    """Compile a wheel of these files; return its bytecode by the paths of modules."""
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    compile_wheel.main(str(tmp_path / "a.whl"), str(tmp_path / "out.zip"), "/usr/lib/site", str(MTIME), left_out)
    with zipfile.ZipFile(tmp_path / "out.zip") as out:
        return {name: out.read(name) for name in out.namelist()}


def test_bytecode_has_the_time_and_the_size_of_its_source_and_its_path_in_the_image(tmp_path: Path) -> None:
    found = made(tmp_path, {"a/one.py": "x = 1\n"})["a/one.py"]

    assert [int.from_bytes(found[at : at + 4], "little") for at in (4, 8, 12)] == [0, MTIME, len("x = 1\n")]
    assert marshal.loads(found[HEADER:]).co_filename == "/usr/lib/site/a/one.py"


def test_modules_of_a_wheel_lie_in_site_wherever_the_wheel_has_them(tmp_path: Path) -> None:
    files = {"one.py": "", "a-1.data/purelib/two.py": "", "a-1.data/platlib/b/three.py": ""}

    assert made(tmp_path, files).keys() == {"one.py", "two.py", "b/three.py"}


@pytest.mark.parametrize("name", ["a/data.json", "a-1.data/scripts/run.py", "a-1.dist-info/RECORD"])
def test_what_is_no_module_has_no_bytecode(tmp_path: Path, name: str) -> None:
    assert made(tmp_path, {name: ""}) == {}


@pytest.mark.parametrize(
    "text",
    [
        "def",
        "x = '\0'",
        pytest.param("lambda:" * 1200 + "0", id="marshal"),
    ],
)
def test_a_module_that_does_not_compile_is_left_out_and_the_others_are_not(tmp_path: Path, text: str) -> None:
    assert made(tmp_path, {"bad.py": text, "good.py": "x = 1"}).keys() == {"good.py"}


def test_what_no_task_imports_is_left_out(tmp_path: Path) -> None:
    assert made(tmp_path, {"a/one.py": "", "a/tests/two.py": ""}, "a/tests/").keys() == {"a/one.py"}


def test_equal_wheels_have_equal_bytecode(tmp_path: Path) -> None:
    one, other = (made(tmp_path, {"a.py": "x = [1, 2]"}) for _ in range(2))

    assert one == other
