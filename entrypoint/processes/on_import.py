"""Let a program of ours change a module of somebody else as soon as Python has imported it.

The image's .pth file has the names of the modules and the paths of the programs. It runs this file by its path, and
this file runs them so: in most processes of an image nothing of this package can be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec


def find_spec(name: str, path: Sequence[str] | None, program: str) -> ModuleSpec | None:
    """Return how a module is loaded, after which `change` of the program gets it; None where Python does not find it.

    name, path: as in importlib's find_spec.
    """
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, path)
    loader: Any = spec.loader if spec else None
    if loader is None:
        return spec
    load = loader.exec_module

    def load_and_change(module: Any) -> None:
        load(module)
        load_program(program).change(module)

    loader.exec_module = load_and_change
    return spec


def load_program(path: str) -> Any:
    """Return a program as a module, loaded as the image's .pth file loads this one."""
    import importlib

    bootstrap, files = importlib._bootstrap, importlib._bootstrap_external
    name = path.rpartition("/")[2].partition(".")[0]
    return bootstrap._load(files.spec_from_file_location(f"multinode.{name}", path))  # type: ignore[attr-defined]
