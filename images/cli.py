"""The command line: which handler a command has, the two that only plan, and the exit code."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from images import startup
from images.context import World
from images.host.errors import Fault, system_fault
from images.options import COMMANDS, parse_words, read_request
from images.platforms import PLATFORMS

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["World", "main"]

WIDE = 160  # letters of a row in a file or a pipe, where rich would take 80 and break addresses

Handler = Callable[[argparse.Namespace, World, "Console"], None]


def main(argv: Sequence[str], world: World) -> int:
    """Run a command; return the exit code: 0, 1 when something outside failed, 2 when the request is wrong.

    After a signal it is 128 and its number, as of a shell.
    """
    try:
        command = argv[0] if argv and argv[0] in COMMANDS else None
        options = parse_words(command, argv[1:] if command else argv)
        run, console = _handler(command or "build")
        width = None if sys.stdout and sys.stdout.isatty() else WIDE
        run(options, world, console(stderr=options.json, emoji=False, width=width))
        print(end="", flush=True)  # what cannot be written is said here, and not by Python at its end
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    except KeyboardInterrupt as stop:
        print("interrupted; what was finished is kept, run the same command to go on", file=sys.stderr)
        return 128 + int((*stop.args, signal.SIGINT)[0])
    except OSError as error:
        said = system_fault(error)
        print(said, file=sys.stderr)
        if error.filename is None:  # stdout, of which Python would report at its end what is left in it
            startup.mute(sys.stdout)
        return said.exit_code
    except Exception as error:  # where a step imports what other builds do without
        if (missing := startup.explain_import(error, world.environ)) is None:
            raise
        print(missing, file=sys.stderr)
        return missing.exit_code
    return 0


def _handler(command: str) -> tuple[Handler, type[Console]]:
    """Return what runs a command, and what it prints with; only what it needs is imported."""
    from rich.console import Console

    if command in PLANNING:
        return PLANNING[command], Console
    from images import commands

    return commands.HANDLERS[command], Console


def _plan(options: argparse.Namespace, world: World, out: Console) -> None:
    from images.plan import catalog, matrix, planner

    planned = planner.make_plan(read_request(options), catalog.load(), world.today)
    if options.json:
        print(json.dumps(matrix.plan_fields(planned), indent=1))
    else:
        matrix.show_plan(planned, out)


def _list(options: argparse.Namespace, _: World, out: Console) -> None:
    from images.plan import catalog, matrix

    table = catalog.load().on(options.platform or PLATFORMS[0])
    if options.json:
        print(json.dumps(matrix.list_fields(table), indent=1))
    else:
        matrix.show_list(table, out)


PLANNING: Mapping[str, Handler] = {"plan": _plan, "list": _list}  # which import nothing that only a build needs
