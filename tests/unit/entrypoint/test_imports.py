"""What every start of a container imports: it has 50 ms, and json alone takes three of them."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "entrypoint"
ALLOWED = {"__future__", "json", "os", "stat", "sys", "typing"}


def at_the_top(name: str) -> tuple[set[str], set[str]]:
    """List the modules of ours, and of others, that importing a module imports."""
    ours, others = set(), set()
    for node in ast.parse((PACKAGE / f"{name}.py").read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            ours |= {node.module} if node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            others.add(node.module or "")
        elif isinstance(node, ast.Import):
            others |= {alias.name for alias in node.names}
    return ours, others


def test_a_start_imports_little() -> None:
    seen: set[str] = set()
    waiting, others = {"__main__"}, set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        found = at_the_top(name)
        waiting |= found[0] - seen
        others |= found[1]
    assert "command" in seen
    assert others <= ALLOWED
