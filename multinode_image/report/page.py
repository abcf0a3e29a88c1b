"""The page of `report`: HTML that needs nothing else, with a table and the charts of one training or several."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from multinode_image.errors import one_row
from multinode_image.machine.limits import write_size
from multinode_image.printing.secrets import hide_text
from multinode_image.reading import read_number
from multinode_image.report.charts import Line, draw, write_short
from multinode_image.report.trainings import Point, Training, add, measure
from multinode_image.results.states import SPEED, WAITING

EVALUATION = "eval_"
# Charts of a page, and the metrics of its table.
MOST, METRICS = 24, 24
# The order of charts, before all others; and what begins at 0.
FIRST, FROM_ZERO = ("loss", SPEED, WAITING, "learning_rate", "grad_norm"), (SPEED, WAITING)
TITLES = {SPEED: "samples per second, all ranks", WAITING: "rank 0 waits for gradients, % of the time"}
# Colours that differ for everybody (Okabe and Ito), darker on white and lighter on black.
LIGHT = ("#0067b1", "#c2410c", "#00795b", "#a0368d", "#8a6100", "#4b5563")
DARK = ("#56b4e9", "#f59e5b", "#3ecf9f", "#e08fcf", "#e3c24d", "#b6bec9")
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --quiet: #5b6470; --paper: #f4f5f7; --card: #fff; --rule: #dfe3e8;
  --bad: #b42318; LIGHT }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --quiet: #9aa4b0; --paper: #15181c; --card: #1e2227;
  --rule: #343a42; --bad: #ff8a7a; DARK } }
* { box-sizing: border-box; overflow-wrap: anywhere }
body { margin: 0; padding: 1.5rem clamp(.75rem, 3vw, 2.5rem); background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif }
h1 { font-size: 1.35rem; margin: 0 0 .25rem }
h2 { font-size: 1rem; margin: 0 0 .25rem }
p { margin: .25rem 0; color: var(--quiet) }
.bad { color: var(--bad) }
section { display: grid; gap: 1rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)) }
figure, .table { margin: 0; padding: .9rem 1rem; background: var(--card); border: 1px solid var(--rule);
  border-radius: 8px; min-width: 0 }
.table { margin-top: 1rem; overflow-x: auto }
table { border-collapse: collapse }
th, td { padding: .2rem 1.5rem .2rem 0; text-align: left; vertical-align: top; min-width: 7.5rem }
tbody th { font-weight: normal; color: var(--quiet) }
tbody tr > * { border-bottom: 1px solid var(--rule) }
.one, .one tbody { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)) }
.one, .one tbody { grid-column: 1 / -1; column-gap: 2rem }
.one tr { display: flex; border-bottom: 1px solid var(--rule) }
.one tr > * { border: 0 }
.one th { flex: 0 0 10rem; padding-right: .5rem }
figcaption { font-size: .82rem; color: var(--quiet) }
figcaption span { display: inline-block; margin-right: 1rem }
svg { display: block; width: 100%; height: auto }
.key { width: 1.5rem; height: .6rem; display: inline-block; vertical-align: middle; margin-right: .35rem }
.chart text { font-size: 11px; fill: var(--quiet) }
@media (max-width: 600px) { .chart text { font-size: 14px } }
.grid { stroke: var(--rule) }
.axis { stroke: var(--quiet) }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke: var(--c) }
.dashed { stroke-dasharray: 5 3 }
.dot { fill: var(--c) }
""".strip()
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>
{style}
</style></head><body>"""
NOTHING = "Nothing was logged that has a curve: --logging_steps 10, or logging_steps=10 in TrainingArguments"


def write_page(trainings: Sequence[Training], notes: Iterable[str] = ()) -> str:
    """Return the page of these trainings, each with a colour of its own."""
    names = name_trainings(trainings)
    unit, sizes = choose_axis(trainings)
    charts = list(list_charts(trainings, names, sizes))
    figures = [draw_figure(title, lines, unit) for title, lines in charts[:MOST]]
    left = [f"{len(charts) - MOST} more curves are left out"] if len(charts) > MOST else []
    notes = [*notes, *left, *(f"{name}: {note}" for name, training in zip(names, trainings) for note in training.notes)]
    title = write_title(trainings, names)
    return "\n".join(
        [
            HEAD.format(title=text(title), style=write_style()),
            f"<h1>{text(title)}</h1>",
            *(f"<p>{text(note)}</p>" for note in (*notes, *([] if figures else [NOTHING]))),
            write_summary(trainings, names),
            "<section>",
            *figures,
            "</section>",
            "</body></html>",
        ]
    )


def write_style() -> str:
    """Return the style of the page, with the colours of trainings."""
    light, dark = ("; ".join(f"--c{n}: {colour}" for n, colour in enumerate(side)) for side in (LIGHT, DARK))
    classes = " ".join(f".c{n} {{ --c: var(--c{n}) }}" for n in range(len(LIGHT)))
    return f"{STYLE.replace('LIGHT', light).replace('DARK', dark)}\n{classes}"


def text(value: object) -> str:
    """Return a text for HTML, in which nothing is a tag, an end of an attribute, or moves the cursor."""
    return escape(one_row(hide_text(str(value))))


def name_trainings(trainings: Sequence[Training]) -> list[str]:
    """Return a name for each: its directory, without what all of them begin with."""
    names = [training.directory for training in trainings]
    shared = os.path.commonpath(names) if len(names) > 1 and len({name[:1] == "/" for name in names}) == 1 else ""
    return [os.path.relpath(name, shared) if shared else name for name in names]


def write_title(trainings: Sequence[Training], names: Sequence[str]) -> str:
    """Return what the page is about: the script and where its results are, or the names of several trainings."""
    script = str(trainings[0].facts.get("script") or "")
    return f"{script} in {names[0]}" if len(names) == 1 and script else ", ".join(names)


def choose_axis(trainings: Sequence[Training]) -> tuple[str, list[int]]:
    """Return what curves are drawn over, and how much of it a step is: examples, where steps of trainings differ."""
    batches = [
        batch for training in trainings if isinstance(batch := training.facts.get("batch"), int) and 0 < batch < 2**31
    ]
    if len(batches) == len(trainings) and len({*batches}) > 1:
        return "examples", batches
    return "step", [1] * len(trainings)


def list_charts(
    trainings: Sequence[Training], names: Sequence[str], sizes: Sequence[int]
) -> Iterator[tuple[str, list[Line]]]:
    """Yield what each chart shows and its lines: a metric, as it was in the training and in evaluations.

    sizes: by what the steps of each training are multiplied.
    """
    metrics = {name.removeprefix(EVALUATION) for training in trainings for name in training.curves}
    order = {name: place for place, name in enumerate(FIRST)}
    for metric in sorted(metrics, key=lambda name: (order.get(name, len(order)), name)):
        lines = [
            Line(
                label(name, names[colour], trainings),
                colour,
                [(step * sizes[colour], value) for step, value in points],
                dashed=name != metric,
            )
            for colour, training in enumerate(trainings)
            for name in (metric, f"{EVALUATION}{metric}")
            if (points := training.curves.get(name))
        ]
        if any(len(line.points) > 1 for line in lines):
            yield metric, lines


def label(metric: str, name: str, trainings: Sequence[Training]) -> str:
    """Return the name of a line: that of the metric, or of the training where there are several."""
    is_evaluation = metric.startswith(EVALUATION)
    if len(trainings) > 1:
        return f"{name}{', evaluation' if is_evaluation else ''}"
    return "evaluation" if is_evaluation else "training"


def title_chart(metric: str) -> str:
    """Return what stands above the chart of a metric."""
    return TITLES.get(metric, metric.replace("_", " "))


def draw_figure(metric: str, lines: Sequence[Line], unit: str) -> str:
    """Return a chart with its title, and below it the last and the best of each line."""
    title = title_chart(metric)
    lines = [line._replace(name=one_row(line.name)) for line in lines]
    chart = draw(lines, one_row(title), unit, from_zero=metric in FROM_ZERO)
    keys = "".join(f"<span>{draw_key(line)}{describe_line(line)}</span>" for line in lines)
    faults = "".join(f'<span class="bad">{text(fault)}</span>' for line in lines if (fault := find_fault(line, unit)))
    return f"<figure><h2>{text(title)}</h2>\n{chart}\n<figcaption>{keys}{faults}</figcaption></figure>"


def draw_key(line: Line) -> str:
    """Return a piece of a line, by which it is known."""
    kind = f"line c{line.colour}{' dashed' if line.dashed else ''}"
    return f'<svg class="key" viewBox="0 0 24 10"><polyline class="{kind}" points="0,5 24,5"/></svg>'


def describe_line(line: Line) -> str:
    """Return the name of a line, its last value, and its least and largest one."""
    finite = [value for _, value in line.points if math.isfinite(value)]
    if not finite:
        return text(line.name)
    return text(
        f"{line.name}: {write_short(finite[-1])} at the end, {write_short(min(finite))} to {write_short(max(finite))}"
    )


def find_fault(line: Line, unit: str) -> str:
    """Return where values are no numbers, as the loss of a training that diverges; empty where all are."""
    wrong = [step for step, value in line.points if not math.isfinite(value)]
    return f"NaN or infinite at {len(wrong)} of {len(line.points)} points, from {unit} {wrong[0]}" if wrong else ""


def write_summary(trainings: Sequence[Training], names: Sequence[str]) -> str:
    """Return what is known of each training, and its metrics at the end."""
    columns = [dict(list_known(training)) for training in trainings]
    rows = [
        row
        for row in dict.fromkeys(name for column in columns for name in column)
        if any(column.get(row) for column in columns)
    ]
    head = "".join(f"<th>{draw_key(Line('', colour, ()))}{text(name)}</th>" for colour, name in enumerate(names))
    cells = {row: "".join(f"<td>{text(column.get(row, ''))}</td>" for column in columns) for row in rows}
    body = "".join(f"<tr><th>{text(row)}</th>{cells[row]}</tr>\n" for row in rows)
    shown = f"<thead><tr><th></th>{head}</tr></thead>" if len(trainings) > 1 else ""
    kind = "" if len(trainings) > 1 else ' class="one"'
    return f'<div class="table"><table{kind}>{shown}<tbody>\n{body}</tbody></table></div>'


def list_known(training: Training) -> Iterator[tuple[str, str]]:
    """Yield what is known of a training, each with an empty text where it is not."""
    facts = {name: str(value) for name, value in training.facts.items() if value != ""}
    seconds, speed = add(training.starts, "seconds"), measure(training.starts)
    peak = read_number(training.facts.get("peak"))
    yield "script", facts.get("script", "")
    yield "model", describe_model(training.facts)
    yield "ranks", describe_ranks(facts)
    yield "examples of a step", facts.get("batch", "")
    yield "computes in", ("bfloat16" if facts["bf16"] == "True" else "float32") if "bf16" in facts else ""
    yield "gradients", facts.get("gradients", "")
    yield "torch", facts.get("torch", "").partition("+")[0]
    yield "transformers", facts.get("transformers", "")
    yield "began", write_time(training.starts[0].get("began")) if training.starts else ""
    yield "took", write_seconds(seconds) if seconds else ""
    yield "steps", describe_steps(training)
    yield SPEED.replace("_", " "), write_short(float(f"{speed[SPEED]:.3g}")) if SPEED in speed else ""
    yield WAITING, f"{speed[WAITING]:.0f}% of the time" if WAITING in speed else ""
    yield "most memory of rank 0", write_size(int(peak)) if peak and 0 < peak < 1e18 else ""
    yield from ((name.replace("_", " "), write_short(value)) for name, value in list_results(training))


def list_results(training: Training) -> Iterator[tuple[str, float]]:
    """Yield the last loss, and the last value of each metric of an evaluation."""
    last = {name: finite[-1] for name, points in training.curves.items() if (finite := list_finite(points))}
    if "loss" in last:
        yield "last loss", last["loss"]
    values = {**{name: value for name, value in training.metrics.items() if name.startswith(EVALUATION)}, **last}
    names = [name for name in sorted(values) if name.startswith(EVALUATION) and math.isfinite(values[name])]
    yield from ((name, values[name]) for name in names[:METRICS] if not name.endswith(("_per_second", "_runtime")))


def list_finite(points: Iterable[Point]) -> list[float]:
    """List the values of a curve that are numbers."""
    return [value for _, value in points if math.isfinite(value)]


def describe_model(facts: Mapping[str, object]) -> str:
    """Return the model's name, and its weights."""
    weights = facts.get("weights")
    count = f", {write_short(weights)} weights" if isinstance(weights, int) and 0 < weights < 1e15 else ""
    return f"{facts.get('model', '')}{count}"


def describe_ranks(facts: Mapping[str, str]) -> str:
    """Return how many ranks there are, with how many threads."""
    threads = f", with {facts['threads']} threads each" if facts.get("threads", "") not in ("", "1") else ""
    return f"{facts['ranks']}{threads}" if "ranks" in facts else ""


def describe_steps(training: Training) -> str:
    """Return how many steps were done, of how many, and how often the training was started again."""
    again = ", ".join(str(start.get("step", 0)) for start in training.starts[1:][-5:])
    total = f" of {training.total}" if training.total else ""
    return f"{training.step}{total}{f', started again at step {again}' if again else ''}" if training.step else ""


def write_time(value: object) -> str:
    """Return a time in seconds since 1970 as a date in UTC; empty for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**38:
        return ""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(value))


def write_seconds(seconds: float) -> str:
    """Return a duration in its two largest units."""
    if not 0 <= seconds < 1e10:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
