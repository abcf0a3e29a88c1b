"""What every start of a container imports: it may take 100 ms."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
ALLOWED = {"__future__", "json", "os", "re", "signal", "stat", "sys", "typing"}


def find_file(module: str) -> Path | None:
    """Return the file of a module of ours; None for one of others, or a name within a module."""
    path = ROOT.joinpath(*module.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


def imported_first(file: Path) -> set[str]:
    """List the modules that importing a module imports, with those that may be names of a module."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_a_start_imports_little() -> None:
    seen: set[str] = set()
    waiting, others = {"entrypoint.__main__", "entrypoint.carry_out"}, set()
    while waiting:
        module = waiting.pop()
        file = find_file(module)
        seen.add(module)
        if file is not None:
            waiting |= imported_first(file) - seen
        elif not module.startswith("entrypoint."):
            others.add(module.split(".")[0])
    assert "entrypoint.tasks.command" in seen
    assert others <= ALLOWED
