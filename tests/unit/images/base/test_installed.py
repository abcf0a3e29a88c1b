"""Installed packages and their files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.base.inspect import debian_packages, list_distributions, record_paths
from tests.support.base_facts import tree_of
from tests.support.stand_in import SITE, Files


@pytest.mark.parametrize(
    ("files", "name", "version"),
    [
        ({f"{SITE}/a_b-1.0+cpu.dist-info/RECORD": b"x,,"}, "a-b", "1.0+cpu"),
        ({f"{SITE}/A.b-1.0.dist-info/METADATA": b""}, "a-b", "1.0"),
    ],
)
def test_an_installed_package_is_known_by_its_name_in_normal_form(files: Files, name: str, version: str) -> None:
    tree = tree_of({**files, f"{SITE}/module.py": b""})

    assert [(d.name, d.version) for d in list_distributions(tree, SITE)] == [(name, version)]


def test_record_paths_do_not_leave_the_root() -> None:
    text = 'a.py,sha256=x,1\n"b,c.py",,\n../../../bin/run,,\n/opt/x,,\n../../../../../../etc/y,,\n'

    assert record_paths(text, SITE) == [f"{SITE}/a.py", f"{SITE}/b,c.py", "usr/local/bin/run", "opt/x", "etc/y"]


@given(st.text())
def test_any_record_is_read(text: str) -> None:
    assert all(not path.startswith(("/", "..")) for path in record_paths(text, SITE))


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
