"""What `plan` and `list` print; docs/versions.md holds the matrix."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from images.plan import catalog, matrix, planner
from images.plan.plan import Request

TABLE = catalog.load()


def test_a_list_as_json_has_every_release() -> None:
    listed = json.loads(json.dumps(matrix.list_fields(TABLE)))

    assert {row["version"] for row in listed["torch"]} == set(map(str, TABLE.torch))
    assert sum(len(era["releases"]) + len(era["yanked"]) for era in listed["transformers"]) == len(TABLE.transformers)


def test_plan_and_list_are_read_by_people() -> None:
    out = StringIO()
    console = Console(file=out, width=200)

    matrix.show_plan(planner.make_plan(Request(torch="2.4.0", transformers="4.46.0"), TABLE), console)
    matrix.show_list(TABLE, console)

    for word in ("oneccl_bind_pt==2.4.0", "2.4.0-pip-multinode", "was yanked", "4.45 to 4.46", "--use_ipex gone"):
        assert word in out.getvalue()


def test_a_narrow_table_leaves_nothing_out() -> None:
    out = StringIO()

    matrix.show_list(TABLE, Console(file=out, width=60))

    assert out.getvalue().isascii()


def test_a_range_of_transformers_stands_once() -> None:
    ranges = [era["era"] for era in matrix.eras(TABLE)]

    assert sorted({*ranges}) == sorted(ranges)
