"""Debian packages that the store has or lacks; tests/integration/test_package.py reads real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.debs import package
from images.host.errors import WorldFault
from images.host.store import Store
from tests.support.locks import TINI

SAID = "Package: tini\nVersion: 0.19\nArchitecture: amd64\n"


def test_a_package_that_the_store_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorldFault, match="tini") as caught:
        package.control(Store(tmp_path), {}, TINI)

    assert caught.value.remedy == "build again, or make a new lock"


def test_what_a_package_says_of_itself_is_read_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.cached("controls", TINI.sha256, lambda: SAID)

    assert package.control(store, {}, TINI) == SAID
