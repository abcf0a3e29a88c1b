"""What a Python before 3.11 would compile to other bytecode in another process, and that it is left out."""

from __future__ import annotations

import marshal

import pytest

from images.compiling.settle import HEADER, settle

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

    settled = settle(bytes(HEADER) + marshal.dumps(code))

    assert (settled[:HEADER], marshal.loads(settled[HEADER:])) == (bytes(HEADER), code) if same else not settled


def test_what_else_a_process_holds_does_not_show() -> None:
    one, other = (compile("a_rare_name", "one.py", "exec") for _ in range(2))
    held = [other.co_names, *other.co_names]

    assert settle(bytes(HEADER) + marshal.dumps(one)) == settle(bytes(HEADER) + marshal.dumps(other)), held
