"""Tables in Markdown, from figures: which rows and columns there are is data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.figures import promises
from benchmarks.figures.measured import Figures, of_json, written
from benchmarks.host import machine
from benchmarks.report.rows import TABLES, Cell, Row, Table

EMPTY = "—"


def whole(name: str, part: Mapping[str, Any]) -> str:
    """Return everything that a page says of a part: the machine, what was missed or not measured, and its tables."""
    figures = of_json(part)
    texts = [header(part), promised(promises.judge({name: figures}))]
    texts += [text for table in TABLES[name] if (text := written_table(table, figures))]
    texts += [f"Not measured: {what} ({why})." for what, why in sorted(figures.missing.items())]
    return "\n\n".join(text for text in texts if text)


def header(part: Mapping[str, Any]) -> str:
    """Return where and when the figures were measured, and whether other work ran there."""
    runs = "one run" if part["runs"] == 1 else f"up to {part['runs']} alternating runs"
    text = f"Medians of {runs} on {part['day']}: {machine.written(part['machine'])}; {part['minutes']} minutes."
    if not machine.is_busy(part["machine"]):
        return text
    load = part["machine"]["load"]
    return f"{text} **Other work ran beside it** (load {load} before the start): seconds say little, ratios are rough."


def promised(verdicts: Sequence[promises.Verdict]) -> str:
    """Return the promises of a part with what was measured."""
    lines = ["| promise | limit | measured | |", "|---|---|---|---|"]
    for verdict in verdicts:
        what = verdict.promise.what[0].upper() + verdict.promise.what[1:]
        lines.append(f"| {what}: {verdict.promise.how} | {verdict.promise.limit} | {verdict.text} | {state(verdict)} |")
    return "\n".join(lines) if verdicts else ""


def state(verdict: promises.Verdict) -> str:
    """Return what became of a promise; one that is missed catches the eye."""
    return f"**{verdict.state}**" if verdict.state == promises.MISSED else verdict.state


def written_table(table: Table, figures: Figures) -> str:
    """Return a table without the rows and columns of which nothing was measured; nothing if that leaves none."""
    rows = [(row.title, [cell(each, figures) for each in row.cells]) for row in expand(table, figures)]
    rows = [(title, cells) for title, cells in rows if any(each != EMPTY for each in cells)]
    kept = [n for n in range(len(table.columns)) if any(cells[n] != EMPTY for _, cells in rows)]
    if not rows:
        return ""
    lines = [f"**{table.title}**", "", "| | " + " | ".join(table.columns[n] for n in kept) + " |"]
    lines.append("|---" * (len(kept) + 1) + "|")
    lines += [f"| {title} | " + " | ".join(cells[n] for n in kept) + " |" for title, cells in rows]
    return "\n".join(lines)


def expand(table: Table, figures: Figures) -> list[Row]:
    """Return the rows; one with a star stands for every figure whose name fits there, in the order of measuring."""
    rows = []
    for row in table.rows:
        if "*" not in row.title:
            rows.append(row)
            continue
        start, _, end = str(row.cells[0]).partition("*")
        names = [part for part in figures.values if part.startswith(start) and part.endswith(end)]
        for part in (name[len(start) : len(name) - len(end)] for name in names):
            cells = tuple(_with(cell, part) for cell in row.cells)
            rows.append(Row(row.title.replace("*", part), cells))
    return rows


def _with(template: Cell, name: str) -> Cell:
    if template is None:
        return None
    if isinstance(template, str):
        return template.replace("*", name)
    return template[0].replace("*", name), template[1].replace("*", name)


def cell(content: Cell, figures: Figures) -> str:
    """Return a cell: a figure by its name, a ratio of two, or nothing."""
    if content is None:
        return EMPTY
    if isinstance(content, str):
        value = figures.median(content)
        return EMPTY if value is None else written(value, figures.units[content])
    ratio = figures.ratio(*content)
    return EMPTY if ratio is None else written(ratio, "ratio")
