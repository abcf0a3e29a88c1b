"""Programs that a test needs and a machine may not have: it is skipped, and says in one way what would bring them."""

from __future__ import annotations

import shutil

import pytest

PACKAGES = {"ch-run": "charliecloud"}  # of Debian, where they are called otherwise


def list_missing(*programs: str) -> list[str]:
    """Return which of these programs are not there."""
    return [name for name in programs if shutil.which(name) is None]


def say_missing(missing: list[str]) -> str:
    """Return why a test is skipped."""
    packages = " ".join(PACKAGES.get(name, name) for name in missing)
    return f"not installed: {' '.join(missing)}; apt-get install {packages}"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs these programs."""
    missing = list_missing(*programs)
    return pytest.mark.skipif(bool(missing), reason=say_missing(missing))
