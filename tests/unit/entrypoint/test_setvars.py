"""What oneCCL's script changed."""

from __future__ import annotations

from entrypoint.setvars import changes, find_script
from entrypoint.stack import Stack

CCL = Stack("2.4.0+cpu", "4.46.0", "3.10", "ccl", None, "/site")


def test_script() -> None:
    assert find_script(CCL) == "/site/oneccl_bindings_for_pytorch/env/setvars.sh"
    assert find_script(CCL._replace(torch="1.11.0+cpu")) == "/site/torch_ccl/env/setvars.sh"
    assert find_script(CCL._replace(backend="gloo")) is None


def test_changes() -> None:
    dump = "A=1\0B=two\nlines\0SHLVL=2\0PATH=/ccl:/bin\0"
    assert changes({"A": "1", "PATH": "/bin"}, dump) == {"B": "two\nlines", "PATH": "/ccl:/bin"}
