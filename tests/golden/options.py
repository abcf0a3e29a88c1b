"""What argparse is told: the options of build.py and of scripts/manifest.py, and which commands and kinds have them.

The texts of --help are not compared, for their form differs between releases of Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from images import options
from manifests.options import make_parser
from tests.golden.data import as_json


def described(parsers: Mapping[str, argparse.ArgumentParser]) -> dict[str, Any]:
    """Return each option as argparse has it -> the parsers that have it so; and what is said of each parser."""
    rows: dict[str, list[str]] = {}
    for name, parser in parsers.items():
        for action in parser._actions:
            if action.dest not in ("help", "command", "kind"):
                rows.setdefault(_row(action), []).append(name)
    return {"options": rows, "descriptions": {name: parser.description for name, parser in parsers.items()}}


def _row(action: argparse.Action) -> str:
    read = getattr(action.type, "__name__", None)
    default = "CORES" if action.dest == "jobs" else action.default  # that is of this machine
    kept = (action.metavar, action.nargs, action.const, default, action.choices, action.required, read)
    called = "/".join(action.option_strings) or action.dest
    return f"{called} {type(action).__name__} {' '.join(map(str, kept))}: {action.help}"


def below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands or kinds of a parser, and itself by an empty name."""
    commands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {"": parser, **{name: one for action in commands for name, one in action.choices.items()}}


def produce() -> dict[str, str]:
    """Return one file for each program."""
    build = {"": options.parser(), **{name: options.parser(name) for name in options.COMMANDS}}
    return {"build.json": as_json(described(build)), "manifest.json": as_json(described(below(make_parser())))}
