"""Values of expressions in an example script: constants, arguments, and names they were given. Nothing is run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from entrypoint.numbers import is_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Unknown:
    """A value that only the running script has."""


class Loaded:
    """A model or the like that the script has loaded before, and that is no name of anything."""


UNKNOWN = Unknown()
LOADED = Loaded()
LOADERS = ("from_pretrained", "from_config")


def holds(value: object) -> bool | None:
    """Return whether a condition of a script holds, by its value; None if that is unknown."""
    return None if isinstance(value, Unknown) else is_true(value)


class Values:
    """The arguments of a script, those that are given and the defaults in its source; and its names, as they are set.

    A name is known as long as it is certain which of several statements has set it last.
    """

    def __init__(self, given: Mapping[str, object], tree: ast.AST) -> None:
        """Read the defaults once; what is given wins."""
        self.known: dict[str, object] = {**dict(list_defaults(tree)), **given}
        self.names: dict[str, object] = {}

    def assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        """Give a name the value of an assignment; any other target of it is forgotten."""
        value = self.find(node.value)
        self.forget(node)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                self.names[target.id] = value

    def forget(self, *nodes: ast.AST) -> None:
        """Forget what these statements or expressions may set."""
        for name in (name for node in nodes for name in list_set(node)):
            self.names.pop(name, None)

    def find(self, node: ast.expr | None) -> object:
        """Return the value of an expression; UNKNOWN if the arguments do not decide it."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Attribute):  # data_args.NAME
            return self.known.get(node.attr, UNKNOWN)
        if isinstance(node, ast.Name):
            return self.names.get(node.id, UNKNOWN)
        if isinstance(node, ast.Call):
            return LOADED if isinstance(node.func, ast.Attribute) and node.func.attr in LOADERS else UNKNOWN
        if isinstance(node, ast.IfExp):
            test = holds(self.find(node.test))
            return UNKNOWN if test is None else self.find(node.body if test else node.orelse)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            test = holds(self.find(node.operand))
            return UNKNOWN if test is None else not test
        if isinstance(node, ast.BoolOp):
            return self.find_either(node)
        return self.compare(node) if isinstance(node, ast.Compare) and len(node.ops) == 1 else UNKNOWN

    def find_either(self, node: ast.BoolOp) -> object:
        """Return the value of `and` or `or`: that of the operand which decides it."""
        decides = isinstance(node.op, ast.Or)
        values = [self.find(each) for each in node.values]
        known = [holds(each) for each in values]
        if decides in known and None not in known[: known.index(decides)]:
            return values[known.index(decides)]
        if decides in known:
            return decides
        return UNKNOWN if None in known else values[-1]

    def compare(self, node: ast.Compare) -> object:
        """Return whether two values are the same; UNKNOWN for other comparisons."""
        left, right = self.find(node.left), self.find(node.comparators[0])
        if UNKNOWN in (left, right):
            return UNKNOWN
        if isinstance(node.ops[0], (ast.Is, ast.Eq)):
            return left == right
        return left != right if isinstance(node.ops[0], (ast.IsNot, ast.NotEq)) else UNKNOWN


def list_set(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement or expression may set, also those of parameters and inner functions."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            yield each.id
        elif isinstance(each, ast.arg):
            yield each.arg
        elif isinstance(each, ast.alias):
            yield (each.asname or each.name).partition(".")[0]
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)) and each.name:
            yield each.name


def list_defaults(tree: ast.AST) -> Iterator[tuple[str, object]]:
    """Yield the defaults of a script's arguments: fields of its dataclasses, or those of add_argument."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (pair for each in node.body if isinstance(each, ast.AnnAssign) for pair in read_field(each))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".add_argument"):
            yield from read_argument(node)


def read_field(node: ast.AnnAssign) -> Iterator[tuple[str, object]]:
    """Yield a field's name and default; a field without one has to be given."""
    value: ast.expr | None = node.value
    if isinstance(value, ast.Call):
        value = next((each.value for each in value.keywords if each.arg == "default"), None)
    if isinstance(node.target, ast.Name) and isinstance(value, ast.Constant):
        yield node.target.id, value.value


def read_argument(node: ast.Call) -> Iterator[tuple[str, object]]:
    """Yield the name and default of add_argument("--name", ...); a flag without a value is False."""
    names = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    name = next((each[2:].replace("-", "_") for each in names if each.startswith("--")), None)
    words = {each.arg: each.value.value for each in node.keywords if isinstance(each.value, ast.Constant)}
    if name:
        yield name, words.get("default", False if words.get("action") == "store_true" else None)
