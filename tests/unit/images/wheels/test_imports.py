"""Texts of modules -> what they import, as any release of Python would; found fast in whole wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from images.wheels import imports
from images.wheels.imports import Import
from tests.support.growth import assert_linear, repeat
from tests.support.wheels import pack

WORDS = ("tests", "_flight")
# A text at a/b/one.py -> each name that it may import, with a + before one that a function imports.
TEXTS = [
    ("import tests", "tests"),
    ("import os, c.tests.d as e", "os c.tests.d"),
    ("from c.tests import d, e as f", "c.tests c.tests.d c.tests.e"),
    ("from . import tests", "a.b a.b.tests"),
    ("from .tests.d import e", "a.b.tests.d a.b.tests.d.e"),
    ("from ..tests import *", "a.tests a.tests.*"),
    ("from c import (\n  d,  # of (e)\n  tests,\n)", "c c.d c.tests"),
    ("from c import d, \\\n    tests", "c c.d c.tests"),
    ("from c import d, \\\r\n    tests\r\n", "c c.d c.tests"),
    ("import c; from .tests import d", "c a.b.tests a.b.tests.d"),
    ("try: import c._flight\nexcept ImportError: pass", "c._flight"),
    ("if True:\n\timport c.tests", "c.tests"),
    ("class A:\n    import c.tests", "c.tests"),
    ("def f():\n    import c.tests\n", "+c.tests"),
    ("async def f(\n    a,\n) -> None:\n    if a:\n        import c.tests\nimport c", "+c.tests c"),
    ("class A:\n  def f(self):\n    def g(): pass\n    import c.tests\n  import d", "+c.tests d"),
    ("type X = int\nf'{'c'}'\nimport c.tests", "c.tests"),  # what older releases cannot compile
    ("x = 'import c.tests'", ""),
    ("importlib.import_module('c.tests')", ""),
    ("# from c import (d\nfrom c import tests", "c c.tests"),
    ("raise Error('no import of c.tests')", ""),
]


def names(listed: list[Import]) -> str:
    assert {statement.path for statement in listed} <= {"a/b/one.py"}
    return " ".join(f"{'+' if statement.deferred else ''}{statement.module}" for statement in listed)


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_what_a_module_may_import_has_whole_names(text: str, expected: str) -> None:
    assert names(imports.parse_imports(text, "a/b/one.py")) == expected


@pytest.mark.parametrize(("text", "expected"), TEXTS)
@pytest.mark.parametrize("around", ["{}", "import os\n\n{}\n", "x = 1\r\n{}"])
def test_of_a_wheel_imports_with_one_of_some_words_are_found(
    tmp_path: Path, around: str, text: str, expected: str
) -> None:
    wheel = pack(
        tmp_path, {"a/b/one.py": around.format(text).encode(), "a/two.py": b"from .tests import d", "a/c": b""}
    )

    listed = imports.list_imports(wheel, lambda path: path != "a/two.py", WORDS)

    assert names(listed) == " ".join(name for name in expected.split() if {*WORDS} & {*name.lstrip("+").split(".")})


def test_a_package_is_above_its_own_init() -> None:
    assert [one.module for one in imports.parse_imports("from .t import x", "a/__init__.py")] == ["a.t", "a.t.x"]


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("a.py", "a"), ("a/b.py", "a.b"), ("a/__init__.py", "a"), ("a/b.abi3.so", "a.b"), ("a/b.so", "a.b"),
        ("a/b.cpython-311-x86_64-linux-gnu.so", "a.b"), ("a/b.so.1", None), ("a/b.pyi", None), ("a/b.txt", None),
    ],
)  # fmt: skip
def test_files_are_imported_by_names(path: str, module: str | None) -> None:
    assert imports.dotted_name(path) == module


REPEATED = (
    "import ", "from a import (", "import a;", "from . ", "import a, \\\n", "def f():\n import tests\n", "#(\n",
)  # fmt: skip


@pytest.mark.parametrize("text", REPEATED)
def test_modules_of_strangers_are_read_in_time(tmp_path: Path, text: str) -> None:
    assert_linear(lambda whole: imports.parse_imports(whole, "a.py"), repeat(text))

    def read(whole: str) -> None:
        path = tmp_path / "thing-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.py", whole)
            for name in ("METADATA", "WHEEL", "RECORD"):
                archive.writestr(f"thing-1.0.dist-info/{name}", "")
        imports.list_imports(path, lambda _: True, ("other",))

    assert_linear(read, repeat(text))


def test_only_modules_are_read_for_imports(tmp_path: Path) -> None:
    wheel = pack(tmp_path, {"a.so": b"\nimport torch.testing\n", "a.py": b"\nimport torch.testing\n"})

    assert [one.path for one in imports.list_imports(wheel, lambda _: True, ("testing",))] == ["a.py"]
