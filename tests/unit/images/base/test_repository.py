"""The index of a flat repository, and a package that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.base import apt, debian, repository
from images.base.apt import Deb
from images.host.errors import WorldFault
from images.host.store import Store
from images.plan import catalog

GONE = Deb("tini", "0.19.0-1", "amd64", "tini_0.19.0-1_amd64.deb", "5a" * 32)
CONTROL = """Package: tini
Version: 0.19.0-1
Description: tiny but valid init
 Filename: is not said here
 .
 The end.

"""


def test_a_paragraph_ends_in_what_apt_checks() -> None:
    written = repository.paragraph(CONTROL, GONE.sha256, 249_000)

    assert written.startswith(CONTROL.rstrip() + "\n")
    assert written.splitlines()[-3:] == [f"Filename: ./{'5a' * 32}.deb", "Size: 249000", f"SHA256: {'5a' * 32}"]
    assert "\n\n" not in written


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorldFault) as fault:
        debian.make(Store(tmp_path), catalog.load().debian, apt.Choice((GONE,), ""), {})
    assert GONE.filename in fault.value.value
    assert "mirrors drop old packages" in fault.value.remedy
    assert "bundle" in fault.value.remedy
    assert not list((tmp_path / "aside").iterdir())
