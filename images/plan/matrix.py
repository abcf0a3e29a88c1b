"""Plans and the table of versions, as people and programs read them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from images.content import Content
from images.host.errors import shown
from images.plan import compatibility, planner
from images.plan.catalog import Catalog, Torch
from images.plan.plan import Plan, Request
from images.platforms import Platform

# From this width on, that of a terminal nobody has changed, no word of a table's head is cut.
USUAL_WIDTH = 80
MOST = 50  # lines that `plan` prints of a list; a directory may have thousands of files
# What `plan` says first, in this order; then come all other fields, and options that are not as usual.
FIRST = (
    "platform", "torch", "transformers", "python", "base", "glibc", "backend", "bindings", "module", "ipex", "intel",
)  # fmt: skip
USUAL = asdict(Content())
SHOWN = [one.name for one in fields(Plan) if one.metadata.get("shown", one.name not in USUAL)]
DECIDED = dict.fromkeys((*FIRST, *SHOWN))
# What `list --json` says of a row of the table, beside what is made of it.
OF_TORCH = {"version", "released", "python", "backend", "bindings", "ipex", "notes", "source"}
OF_ERA = {"era", "python", "torch", "accelerate", "ccl", "flags", "source"}

UNRESOLVED = "which releases of your packages go in is not asked here: build and lock say it"

HEADINGS = ("torch", "Python", "backend", "oneCCL bindings", "IPEX", "transformers", "base")


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return what a plan decides, as an object of JSON."""
    values = {name: getattr(plan, name) for name in DECIDED}
    decided = {name: str(one) if isinstance(one, datetime.date | Platform) else one for name, one in values.items()}
    base = shown(plan.base_reference or f"debian:{plan.base_suite}")
    module, examples = plan.module if plan.bindings else None, shown(plan.examples) if plan.examples else None
    chosen = {name: getattr(plan, name) for name, usual in USUAL.items() if getattr(plan, name) != usual}
    if plan.user_packages:
        chosen |= {"user_packages": plan.user_packages, "notes": (*plan.notes, UNRESOLVED)}
    chosen |= {"user_files": tuple(one.path for one in plan.user_files)} if plan.user_files else {}
    return {**decided, "base": base, "module": module, "examples": examples, **chosen}


def show_plan(plan: Plan, out: Console) -> None:
    """Print a plan: a line for each decision, and for a list a line for each item."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in plan_fields(plan).items():
        if name == "sources":
            value = tuple(f"{package}: {source}" for package, source in value.items())
        items = value if isinstance(value, tuple) else (value,)
        more = (f"and {len(items) - MOST} more",) if len(items) > MOST else ()
        for position, item in enumerate((*items[:MOST], *more) or (None,)):
            table.add_row("" if position else name.replace("_", " "), escape("-" if item is None else str(item)))
    out.print(table)


def matrix(catalog: Catalog) -> list[tuple[str, ...]]:
    """Return what goes with each torch, newest first: one row for neighbours that have the same beside them."""
    rows = [(version, _columns(row, catalog)) for version, row in sorted(catalog.torch.items())]
    lines = []
    for (columns, _), run in groupby(rows, key=lambda row: (row[1], row[0] in catalog.tested_torch)):
        names = [str(version) for version, _ in run]
        lines.append((names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", *columns))
    return lines[::-1]


def _columns(torch: Torch, catalog: Catalog) -> tuple[str, ...]:
    request = Request()
    choices = compatibility.list_bases(torch, request, catalog)
    bases = [choice for choice in choices if choice.base.python in torch.python]
    base = " or ".join(choice.reference or "debian" for choice in bases) or "an image of your own"
    stack = f"ccl (Python {torch.ccl_python[0]} to {torch.ccl_python[-1]})" if torch.ccl_python else "gloo"
    ccl_possible = not bases or any(choice.base.python in torch.ccl_python for choice in bases)
    return (
        f"{torch.python[0]} to {torch.python[-1]}",
        torch.backend if ccl_possible or torch.backend == "gloo" else f"gloo; {stack}",
        str(torch.bindings or "-"),
        str(torch.ipex or "-"),
        _runs(torch, request, catalog) or "-",
        base,
    )


def _runs(torch: Torch, request: Request, catalog: Catalog) -> str:
    """Return the releases of transformers that can be built with a torch, as ranges."""
    fitting, rows = planner.partners(torch, request, catalog), catalog.transformers
    every = sorted(version for version, row in rows.items() if row.yanked is None)
    runs = [list(run) for good, run in groupby(every, key=lambda version: rows[version].era in fitting) if good]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def eras(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the ranges of transformers releases, and what each requires."""
    ranges = []
    rows = sorted(catalog.transformers.values(), key=lambda row: row.version)
    for _, run in groupby(rows, key=lambda row: row.era):
        members = list(run)
        releases = [str(row.version) for row in members if row.yanked is None]
        yanked = {str(row.version): row.yanked for row in members if row.yanked is not None}
        ranges.append(members[0].model_dump(include=OF_ERA) | {"releases": releases, "yanked": yanked})
    return ranges


def list_fields(catalog: Catalog) -> dict[str, Any]:
    """Return everything that goes together, as an object of JSON: each torch by itself, each range of transformers."""
    torch = []
    for row in sorted(catalog.torch.values(), key=lambda row: row.version):
        *_, transformers, base = _columns(row, catalog)
        derived = {"intel": list(row.intel), "base": base, "transformers": transformers}
        tested = {"tested": row.version in catalog.tested_torch}
        torch.append(row.model_dump(mode="json", include=OF_TORCH) | derived | tested)
    return {"torch": torch, "transformers": eras(catalog), "lacks": catalog.lacks}


def show_list(catalog: Catalog, out: Console) -> None:
    """Print which versions go together; Intel's image by its short name for --base, which no terminal breaks."""
    named = [(*cells, re.sub(r"(?<!\S)\S+/\S+", "intel", base)) for *cells, base in matrix(catalog)]
    out.print(_table(HEADINGS, named, out.width))
    rows = [
        (era["era"], era["python"], era["torch"], era["accelerate"], "yes" if era["ccl"] else "no",
         ", ".join(era["yanked"]) or "-", "; ".join(era["flags"]) or "-")
        for era in reversed(eras(catalog))
    ]  # fmt: skip
    out.print(_table(("transformers", "Python", "torch", "accelerate", "ccl", "yanked", "flags"), rows, out.width))
    if catalog.lacks:
        out.print(catalog.lacks, highlight=False, markup=False)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0))
    for heading in headings:
        whole = max(map(len, heading.split())) if width >= USUAL_WIDTH else None
        table.add_column(heading, overflow="fold", min_width=whole)  # nothing is left out of a narrow table
    for row in rows:
        table.add_row(*map(escape, row))
    return table
