"""Who imports whom, as it is read and drawn."""

from __future__ import annotations

from pathlib import Path

from scripts.pages.imports import Module, find_modules, list_arrows, list_imports, read_program, reduce_arrows

SOURCE = """
import os
import images.host.files as files
from images.plan import catalog
from . import beside
if TYPE_CHECKING:
    from images.oci.layer import Layer
def later() -> None:
    import images.terminal
"""


def test_every_import_of_a_file_is_found(tmp_path: Path) -> None:
    """Those within functions and for type checking too; `from a import b` may be a module of a, or a name in it."""
    (tmp_path / "one.py").write_text(SOURCE)

    assert set(list_imports(tmp_path / "one.py")) == {
        "os", "images.host.files", "images.plan", "images.plan.catalog", "images.oci.layer", "images.oci.layer.Layer",
        "images.terminal", "TYPE_CHECKING",
    } - {"TYPE_CHECKING"}  # fmt: skip


def test_modules_of_a_program_are_those_that_run_outside_of_images() -> None:
    found = find_modules("images")

    assert found["plan.catalog"].as_posix().endswith("images/plan/catalog.py")
    assert not [name for name in found if "rootfs" in name or "__init__" in name]


def test_a_module_imports_others_of_its_program_only() -> None:
    [planner] = [module for module in read_program("images") if module.name == "plan.planner"]

    assert planner.package == "plan"
    assert "plan.catalog" in planner.imports
    assert planner.imports <= find_modules("images").keys()


def test_an_arrow_leads_from_package_to_package() -> None:
    modules = [
        Module("images", "lock.uv", 1, frozenset({"lock.resolve", "plan.planner"})),
        Module("images", "lock.resolve", 1, frozenset({"host.files"})),
        Module("images", "cli", 1, frozenset()),
    ]

    assert list_arrows(modules) == {"lock": {"plan", "host"}, "cli": set()}


def test_an_arrow_that_a_chain_stands_for_is_left_out() -> None:
    arrows = {"cli": {"plan", "lock", "host"}, "lock": {"plan"}, "plan": {"host"}, "host": set[str]()}

    assert reduce_arrows(arrows) == {"cli": {"lock"}, "lock": {"plan"}, "plan": {"host"}, "host": set()}
