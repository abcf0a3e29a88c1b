"""Who imports whom, read from the syntax trees of our programs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """A module, its lines, and the modules of its program that it imports; names are dotted, without the program."""

    program: str
    name: str
    lines: int
    imports: frozenset[str]

    @property
    def package(self) -> str:
        """Return its package; a module outside of packages is one of its own."""
        return self.name.split(".")[0]


def find_modules(program: str) -> dict[str, Path]:
    """Return the modules of a program as dotted name -> file, without the __init__ of packages."""
    top = ROOT / program
    paths = [path for path in sorted(top.rglob("*.py")) if "rootfs" not in path.parts and path.name != "__init__.py"]
    return {".".join(path.relative_to(top).with_suffix("").parts): path for path in paths}


def list_imports(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports, those for type checking too; `from a import b` gives a and a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read_program(program: str) -> list[Module]:
    """Return the modules of a program with their imports of each other."""
    files = find_modules(program)
    found = []
    for name, path in files.items():
        names = {each.removeprefix(f"{program}.") for each in list_imports(path) if each.startswith(f"{program}.")}
        lines = len(path.read_text().splitlines())
        found.append(Module(program, name, lines, frozenset(names & files.keys() - {name})))
    return found


def list_arrows(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return package -> the other packages that its modules import."""
    arrows: dict[str, set[str]] = {module.package: set() for module in modules}
    for module in modules:
        arrows[module.package] |= {each.split(".")[0] for each in module.imports} - {module.package}
    return arrows


def reduce_arrows(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Leave out an arrow that a chain of others stands for."""

    def reachable(start: str) -> set[str]:
        return {start}.union(*(reachable(each) for each in arrows[start]))

    return {
        start: {end for end in ends if not any(end in reachable(other) for other in ends - {end})}
        for start, ends in arrows.items()
    }
