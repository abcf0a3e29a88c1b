#!/usr/bin/env python3
"""Print how the programs are built: packages, modules, lines, and who imports whom.

scripts/architecture.py            print tables with the lines of each module, and pictures as Mermaid
scripts/architecture.py --write    write the tables and pictures of docs/architecture.md anew
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from images import terminal  # noqa: E402
from scripts.pages import markers  # noqa: E402
from scripts.pages.imports import list_arrows, read_program, reduce_arrows  # noqa: E402
from scripts.pages.layers import FLOWS, LAYERS  # noqa: E402

PAGE = ROOT / "docs/architecture.md"


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


def sections(program: str) -> dict[str, list[str]]:
    """Return the generated parts of the page for a program: name -> lines; not all have a flow."""
    flow = {f"flow of {program}": flow_picture(program)} if program in FLOWS else {}
    return {**flow, f"packages of {program}": packages_picture(program), f"modules of {program}": table(program)}


def fill(text: str, programs: Iterable[str] = tuple(LAYERS)) -> str:
    """Return the page with its generated parts written anew."""
    for name, lines in (part for program in programs for part in sections(program).items()):
        text = markers.fill(text, name, lines, PAGE.name)
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
