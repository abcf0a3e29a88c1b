"""Every message of an error that the programs can print, as it stands in their sources."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("multinode_image", "manifests", "images")
ERRORS = ("Refusal", "Fault", "UserFault", "WorldFault")
# Where the fact and the remedy stand among so many arguments; five are those of a row of images/deliver/skopeo.py.
PLACES = {3: (0, 2), 4: (0, 2), 5: (3, 4)}
# What makes a rule of multinode_image/hooks/ends/diagnose.py, of a fact, a remedy and perhaps an exit code.
RULE = "say"
# What stands where a message has a value.
VALUE = "..."
# How many names and functions are followed from a message to its words.
DEPTH = 6


class Message(NamedTuple):
    """The fact of an error and its remedy, with `...` for each value; the remedy is empty where it is all values."""

    fact: str
    remedy: str


class Scope(NamedTuple):
    """What the names of a place in a module stand for.

    texts: what is assigned to each; functions: by name; imports: the module and the name there, None for a module.
    """

    texts: Mapping[str, list[ast.expr]]
    functions: Mapping[str, ast.FunctionDef]
    imports: Mapping[str, tuple[str, str | None]]

    def enter(self, nodes: Iterable[ast.AST]) -> Scope:
        """Return the scope of a part of the module, whose own names count first."""
        return self._replace(texts={**self.texts, **read_texts(nodes)})


@functools.cache
def read_messages() -> tuple[Message, ...]:
    """List the messages of all programs, each fact once, in the order of their words."""
    remedies: dict[str, str] = {}
    for program in PROGRAMS:
        for path in sorted((ROOT / program).rglob("*.py")):
            for message in find_messages(ast.parse(path.read_text())):
                remedies[message.fact] = remedies.get(message.fact) or message.remedy
    return tuple(Message(fact, remedy) for fact, remedy in sorted(remedies.items()) if fact.strip(" ."))


def find_messages(module: ast.Module) -> Iterator[Message]:
    """Yield the messages of the errors that a module makes."""
    everywhere = read_scope(module)
    errors = {*ERRORS, *(node.name for node in module.body if isinstance(node, ast.ClassDef) and is_error(node))}
    for part in module.body:
        nodes = list(ast.walk(part))
        calls = [
            (node, places) for node in nodes if isinstance(node, ast.Call) and (places := find_places(node, errors))
        ]
        scope = everywhere.enter(nodes) if calls else everywhere
        for call, places in calls:
            fact, remedy = (call.args[place] for place in places)
            for text in write(fact, scope):
                yield Message(text, next(filter(None, map(clean, write(remedy, scope))), ""))


def find_places(call: ast.Call, errors: Collection[str]) -> tuple[int, int] | None:
    """Return which arguments of a call are the fact and the remedy of a message; None if it makes none."""
    if name_of(call.func) == RULE and len(call.args) > 1:
        return 0, 1
    return PLACES.get(len(call.args)) if name_of(call.func) in errors else None


def is_error(kind: ast.ClassDef) -> bool:
    return any(name_of(base) in ERRORS for base in kind.bases)


def clean(remedy: str) -> str:
    """Return a remedy without a first way that is all values; an empty text for one that has no word of its own."""
    text = re.sub(r"^(\.\.\.)?[,;] (or |then )?", "", remedy)
    return text if re.search("[a-z]", text) else ""


@functools.cache
def read_module(name: str) -> Scope | None:
    """Return the scope of a module of ours, by its name in an import; None for one of others, or a package."""
    path = ROOT / f"{name.replace('.', '/')}.py"
    return read_scope(ast.parse(path.read_text())) if path.is_file() else None


def read_scope(module: ast.Module) -> Scope:
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    imports: dict[str, tuple[str, str | None]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                is_module = (ROOT / f"{inside.replace('.', '/')}.py").is_file()
                imports[alias.asname or alias.name] = (inside, None) if is_module else (node.module, alias.name)
    return Scope(read_texts(module.body), functions, imports)


def read_texts(nodes: Iterable[ast.AST]) -> Mapping[str, list[ast.expr]]:
    """Return what is assigned to each name, and what a parameter is where a caller says nothing."""
    texts: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target, value in pair(node.targets[0], node.value):
                if isinstance(target, ast.Name):
                    texts.setdefault(target.id, []).append(value)
        elif isinstance(node, ast.arguments) and node.defaults:
            for argument, default in zip(node.args[-len(node.defaults) :], node.defaults, strict=False):
                texts.setdefault(argument.arg, []).append(default)
    return texts


def pair(target: ast.expr, value: ast.expr) -> Iterable[tuple[ast.expr, ast.expr]]:
    """Return each target of an assignment with its value."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return zip(target.elts, value.elts, strict=True)
    return [(target, value)]


def name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def write(node: ast.expr, scope: Scope, depth: int = DEPTH) -> list[str]:
    """Return the texts that an expression may be; a part that only a run knows is a value."""
    if isinstance(node, ast.Constant):
        return [VALUE if node.value is None else str(node.value)]
    if isinstance(node, ast.IfExp):
        return [*write(node.body, scope, depth), *write(node.orelse, scope, depth)]
    if isinstance(node, ast.BoolOp):
        return [text for piece in node.values for text in write(piece, scope, depth)]
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
        return list(map("".join, itertools.product(*(write(part, scope, depth) for part in parts))))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = write(node.left, scope, depth), write(node.right, scope, depth)
        return [text if re.search("[a-z]", text) else VALUE for text in map("".join, itertools.product(*sides))]
    if depth and isinstance(node, ast.Name | ast.Attribute):
        return write_name(node, scope, depth - 1)
    if depth and isinstance(node, ast.Call):
        return write_call(node, scope, depth - 1)
    return [VALUE]


def write_name(node: ast.Name | ast.Attribute, scope: Scope, depth: int) -> list[str]:
    """Return the texts of a name of this module, or of one that it imports."""
    name, place = follow(node, scope)
    values = place.texts.get(name, []) if place else []
    return [text for value in values for text in write(value, place or scope, depth)] or [VALUE]


def write_call(node: ast.Call, scope: Scope, depth: int) -> list[str]:
    """Return the texts that a function of ours returns, or a method of texts or of a table of them."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        return METHODS[node.func.attr](node.func.value, node.args, scope, depth)
    name, place = follow(node.func, scope)
    function = place.functions.get(name) if place else None
    if place is None or function is None:
        return [VALUE]
    inside = place.enter(ast.walk(function))
    ends = [one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value is not None]
    return [text for end in ends for text in write(end, inside, depth)]


def write_format(text: ast.expr, given: list[ast.expr], scope: Scope, depth: int) -> list[str]:
    return [re.sub(r"\{\w*\}", VALUE, form) for form in write(text, scope, depth)]


def write_default(table: ast.expr, given: list[ast.expr], scope: Scope, depth: int) -> list[str]:
    return write(given[1], scope, depth) if len(given) > 1 else [VALUE]


def write_joined(between: ast.expr, given: list[ast.expr], scope: Scope, depth: int) -> list[str]:
    """Return a list that stands in a message as one text, if it is written out."""
    if not isinstance(given[0], ast.List):
        return [VALUE]
    [comma, *_] = write(between, scope, depth)
    return [comma.join(parts) for parts in itertools.product(*(write(part, scope, depth) for part in given[0].elts))]


METHODS = {"format": write_format, "get": write_default, "join": write_joined}


def follow(node: ast.expr, scope: Scope) -> tuple[str, Scope | None]:
    """Return a name, and the scope that it belongs to: this one, or that of the module that it comes from."""
    if isinstance(node, ast.Attribute):
        owner = scope.imports.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return node.attr, read_module(owner[0]) if owner and owner[1] is None else None
    name, place = node.id if isinstance(node, ast.Name) else "", scope
    while name in place.imports and name not in place.texts and name not in place.functions:
        module, inside = place.imports[name]
        known = read_module(module)
        if inside is None or known is None:
            return name, None
        name, place = inside, known
    return name, place
