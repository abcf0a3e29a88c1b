"""Installed packages and their files."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base import inspect
from images.base.installed import distributions_in, record_paths
from images.base.overlay import Tree
from tests.support.stand_in import SITE, Files, layer


@pytest.mark.parametrize(
    ("files", "name", "version"),
    [
        ({f"{SITE}/a_b-1.0+cpu.dist-info/RECORD": b"x,,"}, "a-b", "1.0+cpu"),
        ({f"{SITE}/A.b-1.0-py3.10.egg-info": b""}, "a-b", "1.0"),
        ({f"{SITE}/a.egg-info/PKG-INFO": b"Name: a\nVersion: 2.0\n"}, "a", "2.0"),
        ({f"{SITE}/a-3.egg-info/PKG-INFO": b""}, "a", "3"),
    ],
)
def test_every_form_of_an_installed_package_is_known(files: Files, name: str, version: str) -> None:
    tree = Tree()
    with tarfile.open(fileobj=io.BytesIO(layer({**files, f"{SITE}/module.py": b""})), mode="r|") as tar:
        tree.add(tar, 0, inspect.keep)

    assert [(d.name, d.version) for d in distributions_in(tree, SITE)] == [(name, version)]


def test_record_paths_do_not_leave_the_root() -> None:
    text = 'a.py,sha256=x,1\n"b,c.py",,\n../../../bin/run,,\n/opt/x,,\n../../../../../../etc/y,,\n'

    assert record_paths(text, SITE) == [f"{SITE}/a.py", f"{SITE}/b,c.py", "usr/local/bin/run", "opt/x", "etc/y"]


@given(st.text())
def test_any_record_is_read(text: str) -> None:
    assert all(not path.startswith(("/", "..")) for path in record_paths(text, SITE))
