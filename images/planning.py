"""The commands that only plan: plan and list."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping

from rich.console import Console

from images.context import World
from images.options import read_request
from images.plan import catalog, matrix, planner
from images.platforms import PLATFORMS


def _plan(options: argparse.Namespace, world: World, out: Console) -> None:
    planned = planner.make_plan(read_request(options), catalog.load(), world.today)
    if options.json:
        print(json.dumps(matrix.plan_fields(planned), indent=1))
    else:
        matrix.show_plan(planned, out)


def _list(options: argparse.Namespace, world: World, out: Console) -> None:
    table = catalog.load().on(options.platform or PLATFORMS[0])
    if options.json:
        print(json.dumps(matrix.list_fields(table), indent=1))
    else:
        matrix.show_list(table, out)


HANDLERS: Mapping[str, Callable[[argparse.Namespace, World, Console], None]] = {"plan": _plan, "list": _list}
