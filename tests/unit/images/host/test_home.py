"""The home directory."""

from __future__ import annotations

from pathlib import Path

from images.host.home import home_of


def test_the_home_directory_is_that_of_the_variable() -> None:
    assert home_of({"HOME": "/home/me"}) == Path("/home/me")
    assert home_of({"HOME": ""}) == home_of({}) == Path("~").expanduser()
