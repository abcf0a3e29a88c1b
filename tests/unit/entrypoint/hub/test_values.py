"""Values of expressions, as far as the arguments decide them."""

from __future__ import annotations

import ast

import pytest

from entrypoint.hub.values import UNKNOWN, Values, holds

GIVEN = {"on": True, "off": "False", "name": "x", "none": None}


def find(text: str) -> object:
    return Values(GIVEN, ast.parse("")).find(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ("args.name", "x"),
        ("args.other", UNKNOWN),
        ("name", UNKNOWN),
        ("'a' if args.on else 'b'", "a"),
        ("'a' if args.off else 'b'", "b"),
        ("'a' if args.other else 'b'", UNKNOWN),
        ("not args.off", True),
        ("not other", UNKNOWN),
        ("args.none or args.name", "x"),
        ("args.on and args.other", UNKNOWN),
        ("args.none and args.other", None),
        ("args.other and args.none", False),
        ("args.other or args.on", True),
        ("args.none is None", True),
        ("args.name is not None", True),
        ("args.name == 'x'", True),
        ("args.name != 'x'", False),
        ("args.name in names", UNKNOWN),
        ("args.other == 'x'", UNKNOWN),
        ("1 < args.name < 2", UNKNOWN),
    ],
)
def test_an_expression_has_the_value_that_is_known_of_it(text: str, value: object) -> None:
    assert find(text) == value


@pytest.mark.parametrize(
    ("value", "on"), [(True, True), ("true", True), ("False", False), ("", False), (None, False), (UNKNOWN, None)]
)
def test_a_condition_holds_as_argparse_reads_its_value(value: object, on: bool | None) -> None:
    assert holds(value) is on


def test_defaults_of_a_script_are_found() -> None:
    source = """
class Arguments:
    plain: str = "a"
    described: str = field(default="b", metadata={})
    needed: str = field(metadata={})
    late: list = field(default_factory=list)
parser.add_argument("--with-dash", "-w", default="c")
parser.add_argument("--flag", action="store_true")
parser.add_argument("positional", default="d")
"""
    known = Values({"plain": "given"}, ast.parse(source)).known
    assert known == {"plain": "given", "described": "b", "with_dash": "c", "flag": False}
