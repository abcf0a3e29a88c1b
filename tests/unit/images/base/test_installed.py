"""Installed packages and their files."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base import inspect
from images.base.installed import debian_packages, distributions_in, paragraphs, record_paths
from images.base.overlay import Tree
from images.foreign import tars
from tests.support.stand_in import SITE, Files, layer


@pytest.mark.parametrize(
    ("files", "name", "version"),
    [
        ({f"{SITE}/a_b-1.0+cpu.dist-info/RECORD": b"x,,"}, "a-b", "1.0+cpu"),
        ({f"{SITE}/A.b-1.0.dist-info/METADATA": b""}, "a-b", "1.0"),
    ],
)
def test_an_installed_package_is_known_by_its_name_in_normal_form(files: Files, name: str, version: str) -> None:
    tree = Tree()
    with tars.open_stream(io.BytesIO(layer({**files, f"{SITE}/module.py": b""}))) as tar:
        tree.add(tar, 0, inspect.keep_text)

    assert [(d.name, d.version) for d in distributions_in(tree, SITE)] == [(name, version)]


def test_record_paths_do_not_leave_the_root() -> None:
    text = 'a.py,sha256=x,1\n"b,c.py",,\n../../../bin/run,,\n/opt/x,,\n../../../../../../etc/y,,\n'

    assert record_paths(text, SITE) == [f"{SITE}/a.py", f"{SITE}/b,c.py", "usr/local/bin/run", "opt/x", "etc/y"]


@given(st.text())
def test_any_record_is_read(text: str) -> None:
    assert all(not path.startswith(("/", "..")) for path in record_paths(text, SITE))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", []),
        ("\n\n \n\n", []),
        ("Package: a\nVersion:1:2-3\n", [{"package": "a", "version": "1:2-3"}]),
        ("Package: a\n\n\nPackage: b", [{"package": "a"}, {"package": "b"}]),
        ("A: 1\n \t\nB: 2", [{"a": "1"}, {"b": "2"}]),
        ("Files:\n src/*\n\tdoc/*\n .\nX: y", [{"files": "src/*\n\tdoc/*\n .", "x": "y"}]),
        ("A: 1\nneither a field\n nor the rest of one\nB: 2", [{"a": "1", "b": "2"}]),
        (" a rest of nothing\nA: b: c", [{"a": "b: c"}]),
        ("A: 1\r\n\r\nB: 2\r\n", [{"a": "1"}, {"b": "2"}]),
    ],
)
def test_a_control_file_is_read_as_paragraphs(text: str, read: list[dict[str, str]]) -> None:
    assert list(paragraphs(text)) == read


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(name == name.lower() for fields in paragraphs(text) for name in fields)


STATUS = """Package: python3
Status: install ok installed
Version: 3.11.2-1+b1
Description: interactive high-level
 Python is: a language
 Version: not this one

Package: tini
Version: 0.19.0-1
"""


def test_packages_of_debian_have_the_version_of_their_status() -> None:
    assert debian_packages(STATUS) == {"python3": "3.11.2-1+b1", "tini": "0.19.0-1"}


@given(st.text())
def test_any_status_is_read(status: str) -> None:
    assert isinstance(debian_packages(status), dict)
