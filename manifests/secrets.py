"""Secrets in files of this machine that go into a manifest: who may read the job would read them.

What is a secret by its shape is one wherever it is. A name alone says less in a file than in a variable, for code is
full of keys and tokens that are none (`pad_token = "<pad>"`): there it counts where the value looks as if it had been
generated, or the name is that of a password.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from manifests.request import REFERENCE
from multinode_image.errors import Refusal
from multinode_image.printing.secrets import TYPED, hide_shapes, hide_value, is_secret
from multinode_image.printing.shapes import MAYBE

FACT = "a secret in a manifest is read by all who may read the job"
# Letters and digits without a blank.
GENERATED = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~+/=-]{12,}", re.ASCII)
# A word of a sentence: the examples of transformers speak of "HTTP bearer authorization".
WORD = re.compile(r"[a-z]+")
# A setting of a shell, YAML or JSON.
PAIR = re.compile(r"""([A-Za-z_][\w.-]*)["']?\s*[=:]\s*["']?([^\s"',;]+)""")
# What is read only where it runs: `$(cat FILE)`, `$NAME`, `${NAME}`.
LATER = re.compile(rf"{REFERENCE.pattern}|\$\w+|\$\{{[^}}]*\}}")
LOGIN_LATER = re.compile(rf"(?<=://)(?:(?:{LATER.pattern}):?)+@")


def check_script(name: str, text: str) -> None:
    """Raise Refusal for a file with a secret in it; the message has nothing of the secret."""
    values = list_strings(text) if name.endswith(".py") else list_settings(text)
    place = next((line for line, named, value in (*list_shapes(text), *values) if holds_secret(named, value)), None)
    if place is not None:
        remedy = "the variable MINE in its place, with --env-secret MINE=SECRET:KEY"
        raise Refusal(FACT, f"{name}, line {place}", remedy)


def holds_secret(name: str, value: str) -> bool:
    """Return whether a value in a file is a secret, by its shape, or by its name and its looks; name: may be empty."""
    looks = GENERATED.fullmatch(value) is not None or any(part in name.lower() for part in TYPED)
    plain = MAYBE.sub(lambda match: "" if WORD.fullmatch(match[0]) else match[0], value)
    return hide_shapes(plain) != plain or (looks and is_secret(name, value))


def list_shapes(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, no name, and each token or private key, which are such in comments, too."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, "", match[0]) for match in MAYBE.finditer(line))


def list_settings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number, the name and the value of each setting, and each line as it stands, without a name."""
    for number, line in enumerate(LATER.sub("1", LOGIN_LATER.sub("", text)).splitlines(), 1):
        yield number, "", line
        yield from ((number, pair[1], pair[2]) for pair in PAIR.finditer(line))


def list_strings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the value of each string of Python that has a name, and each without it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of `"\d"`: whoever runs the script is told
            nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # Python would refuse it as well
        return
    for node in nodes:
        for name, value in ((None, node), *list_named(node)):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, read_name(name), value.value


def list_named(node: ast.AST) -> Iterator[tuple[Any, Any]]:
    """Yield names and values that belong together, in assignments, calls, dictionaries and defaults."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign):
        yield node.target, node.value
    elif isinstance(node, ast.Dict):
        yield from zip(node.keys, node.values, strict=True)
    elif isinstance(node, ast.Call):  # setdefault("NAME", "VALUE"), add_argument("--name", default="VALUE")
        values = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "default")]
        yield from ((name, value) for name in node.args[:1] for value in values)
        yield from ((keyword.arg, keyword.value) for keyword in node.keywords)
    elif isinstance(node, ast.arguments):
        given = [*node.posonlyargs, *node.args]
        yield from zip(given[len(given) - len(node.defaults) :], node.defaults, strict=True)
        yield from zip(node.kwonlyargs, node.kw_defaults, strict=True)


def read_name(node: Any) -> str:
    """Return the last name of a target, a key or an argument; empty where there is none."""
    node = node.slice if isinstance(node, ast.Subscript) else node
    value = node.value if isinstance(node, ast.Constant) else node
    text = next((getattr(node, attribute) for attribute in ("id", "attr", "arg") if hasattr(node, attribute)), value)
    return text if isinstance(text, str) else ""


def check_patch(patch: Mapping[str, Any]) -> None:
    """Raise Refusal for a variable of a patch whose value is a secret, as `--env` does."""
    for row in list_rows(patch):
        name, value = str(row["name"]), str(row.get("value", ""))
        plain = REFERENCE.sub("1", value)
        if hide_value(name, plain) != plain:
            raise Refusal(FACT, f"{name} in the patch", f"--env-secret {name}=SECRET:KEY")


def list_rows(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in lists that have a name and a value, as variables do."""
    for child in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from list_rows(child)
    if isinstance(node, Mapping) and "name" in node and "value" in node:
        yield node
