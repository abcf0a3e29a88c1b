"""What an example script fetches from the hub, read from its source: the installed script knows best.

Conditions that the arguments decide are decided; where they do not, both branches count. Nothing is run.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from entrypoint.hub.values import LOADED, UNKNOWN, Unknown, Values, holds
from entrypoint.hub.wanted import DATASET, FILES, METRIC, NLTK, WEIGHTS, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# What transformers, datasets, evaluate and nltk call the first parameter of what loads by a name.
FIRST = ("pretrained_model_name_or_path", "pretrained_model_name", "path", "info_or_id")
METRICS = (("evaluate", "load"), ("", "load_metric"), ("datasets", "load_metric"))
# Calls that load, but not by a first name: pipeline(TASK, MODEL, ...), and what is not fetched: files, and torch.hub.
OTHER = "other"
OTHERS = ("pipeline", "hf_hub_download", "snapshot_download")
LIBRARIES = ("datasets", "evaluate", "huggingface_hub", "nltk", "torch", "transformers")
PIPELINES = ("pipeline", "transformers.pipeline")
PARTS = ("tokenizer", "feature_extractor", "image_processor", "processor")
# What nltk needs since 3.8.2 in place of the first, which the scripts still ask for (nltk/tokenize, PunktTokenizer).
WITH = {"punkt": ("punkt", "punkt_tab")}


class Script(NamedTuple):
    """What a script loads.

    wanted: what it fetches, each once; lines: where it loads what the arguments do not name; own: whether it loads
    files of the user's, which are not fetched.
    """

    wanted: list[Wanted]
    lines: list[int]
    own: bool


def read_script(source: str, given: Mapping[str, object]) -> Script:
    """Return what a script loads with these arguments; raise SyntaxError for what is no Python."""
    tree = ast.parse(source)
    spell_out(tree)
    values = Values(given, tree)
    found, lines, own = [], [], False
    for call in walk(tree.body, values):
        own = own or is_own(call)
        for each in read_call(call, values):
            if each is None:
                lines.append(call.lineno)
            else:
                found.append(each)
    weights = {each.name for each in found if each.kind == WEIGHTS}
    wanted = dict.fromkeys(each for each in found if each.kind != FILES or each.name not in weights)
    return Script(list(wanted), sorted(set(lines)), own)


def spell_out(tree: ast.Module) -> None:
    """Write the functions that a script calls with the modules they are from, whatever it imports them as.

    `load("f1")` after `from evaluate import load` becomes `evaluate.load("f1")`.
    """
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
        elif isinstance(node, ast.Import):
            names.update({each.asname: each.name for each in node.names if each.asname})
    names = {short: full for short, full in names.items() if full.partition(".")[0] in LIBRARIES}
    for call in calls_in([tree]):
        root = next(node for node in ast.walk(call.func) if not isinstance(node, ast.Attribute))
        if isinstance(root, ast.Name):
            root.id = names.get(root.id, root.id)


def walk(body: list[ast.stmt], values: Values) -> Iterator[ast.Call]:
    """Yield the calls of these statements, without the branches that the arguments leave out.

    While a call is yielded, `values` holds the names whose value is certain there.
    """
    for statement in body:
        if isinstance(statement, ast.If):
            yield from walk_if(statement, values)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            if statement.value is not None:
                values.forget(statement.value)
            yield from calls_in(statement)
            values.assign(statement)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            values.forget(*statement.items)
            yield from calls_in(statement.items)
            yield from walk(statement.body, values)
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            outside = dict(values.names)
            yield from walk_block(statement, values)
            values.names = {name: value for name, value in outside.items() if name not in list_shared(statement)}
        else:
            yield from walk_block(statement, values)


def walk_if(statement: ast.If, values: Values) -> Iterator[ast.Call]:
    """Yield the calls of a condition and of its branches; what either of both may set is uncertain after them."""
    values.forget(statement.test)
    yield from calls_in(statement.test)
    test = holds(values.find(statement.test))
    for branch, left_out in ((statement.body, False), (statement.orelse, True)):
        if test is not left_out:
            before = dict(values.names)
            yield from walk(branch, values)
            values.names = before if test is None else values.names
    if test is None:
        values.forget(statement)


def walk_block(statement: ast.stmt, values: Values) -> Iterator[ast.Call]:
    """Yield the calls of any other statement, which may run its parts never, or more than once."""
    values.forget(statement)
    for name, field in ast.iter_fields(statement):
        if name == "handlers":
            yield from (call for handler in field for call in walk(handler.body, values))
        elif isinstance(field, list) and field and isinstance(field[0], ast.stmt):
            yield from walk(field, values)
        else:
            yield from calls_in(field)
    values.forget(statement)


def list_shared(statement: ast.stmt) -> set[str]:
    """Return the names outside of a function or class that it sets: its own, and what it calls global."""
    shared = {statement.name} if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else set()
    return shared.union(*(node.names for node in ast.walk(statement) if isinstance(node, (ast.Global, ast.Nonlocal))))


def calls_in(field: object) -> Iterator[ast.Call]:
    """Yield the calls in an expression, or in several."""
    for each in field if isinstance(field, list) else [field]:
        if isinstance(each, ast.AST):
            yield from (node for node in ast.walk(each) if isinstance(node, ast.Call))


def find_kind(call: ast.Call) -> str | None:
    """Return what kind of thing a call loads by its name; None for all others."""
    of, _, function = ast.unparse(call.func).rpartition(".")
    if function == "from_pretrained":
        name = of.rpartition(".")[2]
        return WEIGHTS if "model" in name.lower() or "For" in name else FILES  # ViTMAEForPreTraining
    if function == "load_dataset":
        return None if is_own(call) else DATASET
    if (of, function) == ("nltk", "download"):
        return NLTK
    if (of, function) in METRICS:
        return METRIC
    return OTHER if function in OTHERS or of == "torch.hub" else None


def read_call(call: ast.Call, values: Values) -> list[Wanted | None]:
    """Return what one call fetches, with None for what the arguments do not name; empty for all others."""
    kind = find_kind(call)
    if kind == OTHER:
        return read_pipeline(call, values) if ast.unparse(call.func) in PIPELINES else [None]
    name = read_name(find_argument(call, 0, FIRST), values) if kind else None
    if kind is None or name is None:
        return []
    if not isinstance(name, str):
        return [None]
    if kind == NLTK:
        return [Wanted(NLTK, each) for each in WITH.get(name, (name,))]
    if kind in (DATASET, METRIC):
        return read_configured(kind, name, call, values)
    return [make(kind, name, None, call, values)]


def read_name(node: ast.expr | None, values: Values) -> str | Unknown | None:
    """Return the name that an argument stands for, UNKNOWN if the arguments of the task do not say it.

    None if it is empty, has been loaded before, or is the directory that the task itself writes.
    """
    name = values.find(node) if node is not None else UNKNOWN
    if name is None or name == "" or name is LOADED or name == values.known.get("output_dir"):
        return None
    return name if isinstance(name, str) else UNKNOWN


def read_pipeline(call: ast.Call, values: Values) -> list[Wanted | None]:
    """Return what pipeline(TASK, MODEL) fetches: without a model it is one that only transformers knows."""
    named = [(WEIGHTS, find_argument(call, 1, ("model",)))]
    named += [(FILES, each.value) for each in call.keywords if each.arg in PARTS]
    found = [(kind, read_name(node, values)) for kind, node in named]
    return [make(kind, name, None, call, values) if isinstance(name, str) else None for kind, name in found if name]


def read_configured(kind: str, name: str, call: ast.Call, values: Values) -> list[Wanted | None]:
    """Return a data set or metric with its configuration.

    A name that the script itself has is left out if the script asks for a configuration and none is given.
    """
    second = find_argument(call, 1, ("name",))
    config = values.find(second) if second is not None else None
    unknown: list[Wanted | None] = [None] if isinstance(config, Unknown) else []
    own = isinstance(find_argument(call, 0, FIRST), ast.Constant)
    if own and second is not None and not isinstance(config, str):
        return unknown
    return [make(kind, name, config if isinstance(config, str) else None, call, values), *unknown]


def find_argument(call: ast.Call, place: int, names: Sequence[str]) -> ast.expr | None:
    """Return the argument at a place, or the one of these names; None if there is none."""
    named = [each.value for each in call.keywords if each.arg in names]
    return next(iter([*call.args[place : place + 1], *named]), None)


def make(kind: str, name: str, config: str | None, call: ast.Call, values: Values) -> Wanted:
    """Return what a call fetches, with the revision and the directory that it names."""
    more = {each.arg: values.find(each.value) for each in call.keywords if each.arg in ("revision", "cache_dir")}
    texts = {key: value for key, value in more.items() if isinstance(value, str) and value}
    return Wanted(kind, name, config, texts.get("revision"), texts.get("cache_dir"))


def is_own(call: ast.Call) -> bool:
    """Return whether a call loads files of the user's as a data set."""
    return ast.unparse(call.func).endswith("load_dataset") and any(each.arg == "data_files" for each in call.keywords)
