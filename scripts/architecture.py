#!/usr/bin/env python3
"""Print how the programs are built: packages, modules, lines, and who imports whom.

scripts/architecture.py            print tables with the lines of each module, and pictures as Mermaid
scripts/architecture.py --write    write the tables and pictures of docs/architecture.md anew
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from images import terminal  # noqa: E402

PAGE = ROOT / "docs/architecture.md"

# The packages, and the modules outside of packages, of each program; imports lead from a later row to earlier ones.
LAYERS: Mapping[str, Sequence[Sequence[str]]] = {
    "images": (
        ("terminal",),
        ("host",),
        ("foreign", "parser"),
        ("debs", "plan", "oci"),
        ("transport",),
        ("base", "wheels"),
        ("lock",),
        ("layers",),
        ("inspection",),
        ("options", "report", "pipeline"),
        ("commands", "planning"),
        ("cli",),
    ),
    "entrypoint": (
        ("errors",),
        ("numbers", "settings", "streams"),
        ("container",),
        ("launchers", "faults"),
        ("processes",),
        ("meeting", "tuning", "training"),
        ("needs", "runs", "situation"),
        ("decide",),
        ("explain", "cluster", "doctor", "hub"),
        ("jobs",),
        ("carry_out",),
        ("__main__",),
    ),
    "manifests": (
        ("fields",),
        ("request",),
        ("options", "task", "division", "pod"),
        ("kinds",),
        ("cli",),
    ),
}

# What a build and a start do, step by step: from, to, and what is handed on.
FLOWS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "images": (
        ("cli", "plan.request", "command line"),
        ("plan.request", "plan.planner", "request"),
        ("plan.planner", "lock.resolve", "plan"),
        ("lock.resolve", "lock.collect", "lock: every file by sha256"),
        ("lock.collect", "base.base", "packages, or a pulled image"),
        ("lock.collect", "layers.assemble", "wheels"),
        ("base.base", "layers.assemble", "base"),
        ("layers.assemble", "oci.image", "layers"),
        ("oci.image", "transport.engine", "image"),
        ("transport.engine", "inspection.import_check", "loaded image"),
    ),
    "entrypoint": (
        ("__main__", "training.job", "arguments"),
        ("training.job", "situation", "job"),
        ("launchers.table", "situation", "world"),
        ("container.processors", "situation", "machine"),
        ("situation", "decide", "situation"),
        ("container.image", "decide", "stack"),
        ("tuning.variables", "decide", "variables, each with its reason"),
        ("training.command", "decide", "command"),
        ("decide", "explain", "decision"),
        ("decide", "carry_out", "decision"),
        ("carry_out", "exec", "environment and command"),
    ),
    "manifests": (
        ("cli", "options", "command line"),
        ("options", "request", "values"),
        ("request", "division", "job, with its operator's variables"),
        ("division", "kinds.trainer", "processes of each pod"),
        ("request", "pod", "job"),
        ("pod", "kinds.pytorchjob", "pods"),
    ),
}


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


def table(program: str, *, lines: bool = False) -> list[str]:
    """Write a program as a table in Markdown: package, its modules, the packages it imports; with lines, how long."""
    modules = read_program(program)
    arrows = list_arrows(modules)
    rows = ["| package | modules | imports |", "| --- | --- | --- |"]
    for package in (each for layer in LAYERS[program] for each in layer):
        names = ", ".join(
            f"`{module.name.partition('.')[2] or module.name}`" + (f" {module.lines}" if lines else "")
            for module in modules if module.package == package
        )  # fmt: skip
        ends = ", ".join(f"`{end}`" for layer in LAYERS[program] for end in layer if end in arrows.get(package, ()))
        rows.append(f"| `{package}` | {names} | {ends or '—'} |")
    return rows


def summary(program: str) -> str:
    """Write how large a program is."""
    modules = read_program(program)
    lines, imports = sum(each.lines for each in modules), sum(len(each.imports) for each in modules)
    return f"{program}: {len(modules)} modules, {lines} lines, {imports} imports of each other"


def packages_picture(program: str) -> list[str]:
    """Draw the packages of a program as Mermaid, without the arrows that follow from others."""
    arrows = reduce_arrows(list_arrows(read_program(program)))
    ordered = [each for layer in reversed(LAYERS[program]) for each in layer if each in arrows]
    lines = [f"    {start} --> {end}" for start in ordered for end in ordered if end in arrows[start]]
    return ["```mermaid", "flowchart TD", *(line.replace("__main__", "main") for line in lines), "```"]


def flow_picture(program: str) -> list[str]:
    """Draw what a program does as Mermaid."""
    lines = []
    for start, end, what in FLOWS[program]:
        nodes = [f"{each.replace('.', '_').strip('_')}[{each.replace('.', '/').strip('_')}]" for each in (start, end)]
        lines.append(f"    {nodes[0]} -->|{what}| {nodes[1]}")
    return ["```mermaid", "flowchart LR", *lines, "```"]


def sections(programs: Iterable[str]) -> dict[str, list[str]]:
    """Return the generated parts of the page for some programs: name -> lines."""
    parts = {"flow": flow_picture, "packages": packages_picture, "modules": table}
    return {f"{name} of {program}": make(program) for program in programs for name, make in parts.items()}


def fill(text: str, programs: Iterable[str] = tuple(LAYERS)) -> str:
    """Put the generated parts between their markers, `<!-- NAME -->` and `<!-- end -->`."""
    for name, lines in sections(programs).items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not begin or not end:
            raise SystemExit(f"error: {PAGE.name} has no markers for this part: {name}\n  try: <!-- {name} -->")
        text = "".join([before, begin, "\n", *(f"{line}\n" for line in lines), "\n", end, after])
    return text


def main(argv: Sequence[str]) -> int:
    """Print tables and pictures, or write the page; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/architecture.md anew")
    if parser.parse_args(argv).write:
        PAGE.write_text(fill(PAGE.read_text()))
        return 0
    for program in LAYERS:
        print("\n".join([summary(program), "", *table(program, lines=True), "", *packages_picture(program), ""]))
    return 0


if __name__ == "__main__":
    terminal.end_at_interrupt()
    sys.exit(main(sys.argv[1:]))
