"""What a Python before 3.11 would compile to other bytecode in another process, and that it is left out."""

from __future__ import annotations

import importlib._bootstrap_external as bootstrap
import marshal
import zipfile
from pathlib import Path

import pytest

from images.layers.programs.compile_settled import HEADER, settle, settled

pytestmark = pytest.mark.filterwarnings("ignore:co_lnotab is deprecated")
MODULES = {
    "plain.py": ("x = 1", True),
    "known.py": ("x in {'a', b'b', 1, 2.5, 3j, True}", True),
    "pairs.py": ("x in {('a', 1), ('b', (2, 3))}", True),
    "tuple.py": ("x = (None, ...)", True),
    "none.py": ("x in {None, 'a'}", False),
    "dots.py": ("x in {..., 'a'}", False),
    "inside.py": ("x in {('a', (None, 1)), 2}", False),
    "number.py": ("x in {1e999 - 1e999, 2}", False),
    "nested.py": ("def one():\n    def two():\n        return x in {None, 1}\n", False),
    "deep.py": ("lambda: " * 90 + "x in {None, 1}", False),
}


@pytest.mark.parametrize(("text", "same"), MODULES.values(), ids=MODULES)
def test_a_set_in_the_order_of_addresses_is_not_written(text: str, same: bool) -> None:
    code = compile(text, "one.py", "exec")

    body = settled(code)

    assert (marshal.loads(body) == code) if same else not body


def test_what_else_a_process_holds_does_not_show() -> None:
    one, other = (compile("a_rare_name", "one.py", "exec") for _ in range(2))
    held = [other.co_names, *other.co_names]

    assert settled(one) == settled(other), held


def test_modules_that_vary_are_left_out(tmp_path: Path) -> None:
    headers = {}
    with zipfile.ZipFile(tmp_path / "out", "w") as out:
        for name, (text, _) in MODULES.items():
            code = compile(text, name, "exec")
            made = bytes(bootstrap._code_to_timestamp_pyc(code, 7, len(text)))  # type: ignore[attr-defined]
            headers[name] = made[:HEADER]
            out.writestr(zipfile.ZipInfo(name), made)

    settle(str(tmp_path / "out"))

    with zipfile.ZipFile(tmp_path / "out") as kept:
        left = {name: kept.read(name)[:HEADER] for name in kept.namelist()}
    assert left == {name: headers[name] for name, (_, same) in MODULES.items() if same}
