"""Modules that are imported once, and places where they are found; the check of an image is a test of inspection."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from images.check.import_all import main


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package of one module, and return its directory."""
    site = tmp_path / "site"
    (site / "onlyhere-2.0.dist-info").mkdir(parents=True)
    (site / "onlyhere-2.0.dist-info/METADATA").write_text("Name: onlyhere\nVersion: 2.0\n")
    (site / "onlyhere.py").write_text("")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "onlyhere", raising=False)
    return site


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["json", "onlyhere", "onlyhere==2.0 onlyhere"], []),
        (["nowhere_at_all"], ["nowhere_at_all (ModuleNotFoundError: No module named 'nowhere_at_all')"]),
        (["onlyhere==1.0 onlyhere"], ["onlyhere (2.0 instead of 1.0)"]),
        (["absent==1.0"], ["absent (none instead of 1.0)"]),
    ],
)
def test_what_is_wrong_is_listed(package: Path, arguments: list[str], wrong: list[str]) -> None:
    assert main(arguments) == wrong


def test_a_module_in_front_of_its_package_is_listed_first(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = tmp_path / "front"
    front.mkdir()
    (front / "onlyhere.py").write_text("")
    monkeypatch.syspath_prepend(front)
    importlib.invalidate_caches()

    assert main(["absent==1.0", "onlyhere", "onlyhere==2.0 onlyhere"]) == [
        f"onlyhere ({front}/onlyhere.py)",
        "absent (none instead of 1.0)",
    ]
