"""Tables in Markdown, from figures: which rows and columns there are is data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks import promises
from benchmarks.figures import Figures, of_json, written
from benchmarks.host import machine
from benchmarks.report.rows import TABLES, Table

EMPTY = "—"


def whole(name: str, part: Mapping[str, Any]) -> str:
    """Return everything that a page says of a part: the machine, what was missed or not measured, and its tables."""
    figures = of_json(part)
    texts = [header(part), promised(promises.judge({name: figures}))]
    texts += [text for table in TABLES[name] if (text := fill(table, figures))]
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


def fill(table: Table, figures: Figures) -> str:
    """Return a table without the rows and columns of which nothing was measured; nothing if that leaves none."""
    measured = {name for row in expand(table, figures) for name in names(table, row) if figures.median(name)}
    rows = {row: title for row, title in expand(table, figures).items() if measured.intersection(names(table, row))}
    columns = {
        column: title for column, title in table.columns.items() if any(row.format(column) in measured for row in rows)
    }
    cells = [(title, [cell(row, column, columns, figures) for column in columns]) for row, title in rows.items()]
    return draw(table.title, list(columns.values()), [(title, *values) for title, values in cells]) if cells else ""


def names(table: Table, row: str) -> list[str]:
    """Return the names of the figures in a row."""
    return [row.format(column) for column in table.columns]


def expand(table: Table, figures: Figures) -> Mapping[str, str]:
    """Return the rows; one with a star stands for every figure whose name fits there, in the order of measuring."""
    rows = dict[str, str]()
    for row, title in table.rows.items():
        if "*" not in row:
            rows[row] = title
            continue
        for start, end in (name.split("*") for name in names(table, row)):
            parts = [name for name in figures.values if name.startswith(start) and name.endswith(end)]
            rest = [name[len(start) : len(name) - len(end)] for name in parts]
            rows |= {row.replace("*", part): title.replace("*", part) for part in rest}
    return rows


def cell(row: str, column: str, columns: Iterable[str], figures: Figures) -> str:
    """Return a figure, and in brackets what that of the first column is of it."""
    first = next(iter(columns))
    value, ratio = figures.median(row.format(column)), figures.ratio(row.format(first), row.format(column))
    if value is None:
        return EMPTY
    text = written(value, figures.units[row.format(column)])
    return text if column == first or ratio is None else f"{text} ({written(ratio, 'ratio')})"


def draw(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join([f"**{title}**", "", *lines, *(f"| {' | '.join(row)} |" for row in rows)])
