"""The home directory, and what a ~ stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.host.disk.home import at_home, expanded, home_of


def test_the_home_directory_is_that_of_the_variable() -> None:
    assert home_of({"HOME": "/home/me"}) == Path("/home/me")
    assert home_of({"HOME": ""}) == home_of({}) == Path("~").expanduser()


@pytest.mark.parametrize(("path", "there"), [("~/a", True), ("~/b", False), ("/a", True), ("a/~/b", True)])
def test_a_link_keeps_its_tilde_where_nothing_is(tmp_path: Path, path: str, there: bool) -> None:
    (tmp_path / "a").touch()

    assert expanded(path, tmp_path) == (at_home(path, tmp_path) if there else path)
    assert at_home("~/a", tmp_path) == f"{tmp_path}/a"
