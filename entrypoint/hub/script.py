"""What an example script fetches from the hub, read from its source: the installed script knows best.

Conditions that the arguments decide are decided; where they do not, both branches count. Nothing is run.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.hub.values import UNKNOWN, Values, is_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILES, WEIGHTS, DATASET, METRIC, NLTK = "files", "weights", "dataset", "metric", "nltk"
# What nltk needs since 3.8.2 in place of the first, which the scripts still ask for (nltk/tokenize, PunktTokenizer).
WITH = {"punkt": ("punkt", "punkt_tab")}


class Wanted(NamedTuple):
    """Something that a script fetches: its kind and name, and what it is called with."""

    kind: str
    name: str
    config: str | None = None
    revision: str | None = None
    cache: str | None = None


def read_script(source: str, given: Mapping[str, object]) -> list[Wanted]:
    """Return what a script fetches with these arguments, each once; raise SyntaxError for what is no Python."""
    tree = ast.parse(source)
    values = Values(given, tree)
    found = [each for call in walk(tree.body, values) for each in read_call(call, values)]
    weights = {each.name for each in found if each.kind == WEIGHTS}
    return list(dict.fromkeys(each for each in found if each.kind != FILES or each.name not in weights))


def walk(body: list[ast.stmt], values: Values) -> Iterator[ast.Call]:
    """Yield the calls of these statements, without the branches that the arguments leave out."""
    for statement in body:
        if isinstance(statement, ast.If):
            test = is_on(values.find(statement.test))
            yield from walk(statement.body if test is not False else [], values)
            yield from walk(statement.orelse if test is not True else [], values)
            continue
        for name, field in ast.iter_fields(statement):
            if name == "handlers":
                yield from (call for handler in field for call in walk(handler.body, values))
            elif isinstance(field, list) and field and isinstance(field[0], ast.stmt):
                yield from walk(field, values)
            else:
                yield from calls_in(field)


def calls_in(field: object) -> Iterator[ast.Call]:
    """Yield the calls in an expression, or in several."""
    for each in field if isinstance(field, list) else [field]:
        if isinstance(each, ast.AST):
            yield from (node for node in ast.walk(each) if isinstance(node, ast.Call))


def read_call(call: ast.Call, values: Values) -> list[Wanted]:
    """Return what one call fetches; empty for all others, and where the arguments do not say what."""
    of, _, function = ast.unparse(call.func).rpartition(".")
    name = values.find(call.args[0]) if call.args else UNKNOWN
    if not isinstance(name, str) or not name:
        return []
    if function == "from_pretrained":
        kind = WEIGHTS if "model" in of.lower() else FILES
        return [make(kind, name, None, call, values)]
    if (of, function) in (("evaluate", "load"), ("", "load_metric")):
        return read_configured(METRIC, name, call, values)
    if function == "load_dataset" and not has(call, "data_files"):
        return read_configured(DATASET, name, call, values)
    if of == "nltk" and function == "download":
        return [Wanted(NLTK, each) for each in WITH.get(name, (name,))]
    return []


def read_configured(kind: str, name: str, call: ast.Call, values: Values) -> list[Wanted]:
    """Return a data set or metric with its configuration; empty for the script's own one without a value for that."""
    named = [each.value for each in call.keywords if each.arg == "name"]
    second = next(iter([*call.args[1:2], *named]), None)
    config = values.find(second) if second is not None else None
    own = isinstance(call.args[0], ast.Constant)
    if own and second is not None and not isinstance(config, str):
        return []
    return [make(kind, name, config if isinstance(config, str) else None, call, values)]


def make(kind: str, name: str, config: str | None, call: ast.Call, values: Values) -> Wanted:
    """Return what a call fetches, with the revision and the directory that it names."""
    more = {each.arg: values.find(each.value) for each in call.keywords if each.arg in ("revision", "cache_dir")}
    texts = {key: value for key, value in more.items() if isinstance(value, str) and value}
    return Wanted(kind, name, config, texts.get("revision"), texts.get("cache_dir"))


def has(call: ast.Call, name: str) -> bool:
    """Return whether a call has an argument of this name."""
    return any(each.arg == name for each in call.keywords)
