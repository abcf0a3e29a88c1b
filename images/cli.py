"""The command line: which handler a command has, and the exit code. What only plans is handled here."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console

from images.host.context import World
from images.host.errors import Fault, UserFault, WorldFault
from images.options import COMMANDS, parse, request
from images.plan import catalog, matrix, planner

__all__ = ["World", "main"]

Handler = Callable[[argparse.Namespace, World, Console], None]


def main(argv: Sequence[str], world: World) -> int:
    """Run a command; return the exit code: 0, 1 when something outside failed, 2 when the request is wrong."""
    out = Console(stderr="--json" in argv)
    try:
        command = argv[0] if argv and argv[0] in COMMANDS else None
        options = parse(command, argv[1:] if command else argv)
        _handler(command or "build")(options, world, out)
    except Fault as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept, run the same command to go on", file=sys.stderr)
        return 130
    except OSError as error:
        print(_refused(error), file=sys.stderr)
        return 1
    return 0


def _refused(error: OSError) -> WorldFault:
    """Return what the system says of a file that is not the store's."""
    remedy = REMEDIES.get(error.errno or 0, "correct that and run it again")
    return WorldFault(error.strerror or "the system refuses", error.filename or type(error).__name__, remedy)


def _handler(command: str) -> Handler:
    """Return what runs a command; to import everything that builds takes longer than to plan, so plan does without."""
    if command in _PLANNING:
        return _PLANNING[command]
    try:
        from images import commands
    except ModuleNotFoundError as missing:
        raise WorldFault(
            "a Python package is missing", missing.name, "pip install -e . (in a virtual environment)"
        ) from missing
    return commands.HANDLERS[command]


def _plan(options: argparse.Namespace, world: World, out: Console) -> None:
    planned = planner.resolve(request(options), catalog.load(), world.today)
    if options.json:
        print(json.dumps(matrix.plan_fields(planned), indent=1))
    else:
        matrix.show_plan(planned, out)


def _list(options: argparse.Namespace, world: World, out: Console) -> None:
    table = catalog.load()
    if options.markdown and options.json:
        raise UserFault("one format at a time", "--markdown --json", "build.py list --json")
    if options.json:
        print(json.dumps(matrix.list_fields(table), indent=1))
    elif options.markdown:
        print(matrix.markdown(table))
    else:
        matrix.show_list(table, out)


REMEDIES = dict.fromkeys((errno.EACCES, errno.EPERM), "chmod or chown it, so that you may use it; or name another one")
REMEDIES |= dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there, in TMPDIR (default /tmp) too")
_PLANNING: Mapping[str, Handler] = {"plan": _plan, "list": _list}
