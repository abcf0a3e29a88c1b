"""Every message of an error that the programs can print, as it stands in their sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("entrypoint", "manifests", "images")
ERRORS = ("Refusal", "Fault", "UserFault", "WorldFault")
# Where the fact and the remedy stand among so many arguments; five are those of a row of images/deliver/refusals.py.
PLACES = {3: (0, 2), 4: (0, 2), 5: (3, 4)}
# What stands where a message has a value.
VALUE = "..."


class Message(NamedTuple):
    """The fact of an error and its remedy, with `...` for each value; the remedy is empty where it is all values."""

    fact: str
    remedy: str


def read_messages() -> list[Message]:
    """List the messages of all programs, each fact once, in the order of their words."""
    found: dict[str, str] = {}
    for program in PROGRAMS:
        for path in sorted((ROOT / program).rglob("*.py")):
            for message in find_messages(ast.parse(path.read_text())):
                found[message.fact] = found.get(message.fact) or message.remedy
    return [Message(fact, remedy) for fact, remedy in sorted(found.items()) if fact.strip(" .")]


def find_messages(module: ast.Module) -> Iterator[Message]:
    """Yield the messages of the errors that a module makes."""
    everywhere = read_texts(module.body)
    errors = {*ERRORS, *(node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef) and is_error(node))}
    for place in module.body:
        names = {**everywhere, **read_texts(ast.walk(place))}
        for node in ast.walk(place):
            if isinstance(node, ast.Call) and name_of(node.func) in errors and len(node.args) in PLACES:
                fact, remedy = (node.args[place] for place in PLACES[len(node.args)])
                for text in write(fact, names):
                    yield Message(text, whole(next(iter(write(remedy, names)), "")))


def is_error(made: ast.ClassDef) -> bool:
    return any(name_of(base) in ERRORS for base in made.bases)


def whole(remedy: str) -> str:
    """Return a remedy without a first way that is all values; an empty text where it ends in a value, or is one."""
    text = re.sub(r"^(\.\.\.)?[,;] (or |then )?", "", remedy)
    is_cut = text.startswith((VALUE, "=")) or text.rstrip("'").endswith((VALUE, "=", ":"))
    return "" if is_cut else text


def read_texts(nodes: Iterable[ast.AST]) -> Mapping[str, list[ast.expr]]:
    """Return what is assigned to each name."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def write(node: ast.expr, names: Mapping[str, list[ast.expr]], deep: int = 0) -> list[str]:
    """Return the texts that an expression may be; a part that only a run knows is a value."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.IfExp):
        return [*write(node.body, names, deep), *write(node.orelse, names, deep)]
    if isinstance(node, ast.Name) and node.id in names and deep < 3:
        return [text for each in names[node.id] for text in write(each, names, deep + 1)]
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
        return ["".join(next(iter(write(part, names, deep + 1)), VALUE) for part in parts)]
    return [VALUE]
