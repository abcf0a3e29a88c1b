"""What the sources of the programs import, define and say; each file is parsed once for all tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Source(NamedTuple):
    """A file of Python: the dotted names that it imports, the functions and classes that it defines, and its strings.

    `from a import b` imports a and a.b.
    """

    imports: tuple[str, ...]
    defines: tuple[str, ...]
    strings: tuple[str, ...]


@cache
def read_source(path: Path) -> Source:
    """Parse a file."""
    module = ast.parse(path.read_text())
    nodes = list(ast.walk(module))
    return Source(
        tuple(name for node in nodes for name in list_imports(node)),
        tuple(node.name for node in module.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))),
        tuple(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)),
    )


def list_imports(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
