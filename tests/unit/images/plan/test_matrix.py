"""What `plan` and `list` print, and the matrix of docs/versions.md."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from images.model import Request
from images.plan import catalog, matrix, planner

TABLE = catalog.load()


def test_the_ranges_of_the_matrix_leave_out_what_does_not_plan() -> None:
    rows = {row[0]: row for row in matrix.matrix(TABLE)}

    assert rows["2.6.0"][5] == "4.30.0 to 5.24.0"
    assert rows["2.8.0"][5] == "4.30.0 to 4.51.3, 4.53.0 to 5.24.0"
    assert rows["1.12.1"][5:] == ("-", "an image of your own")


def test_plan_and_list_are_json() -> None:
    made = json.loads(json.dumps(matrix.plan_fields(planner.resolve(Request(torch="2.4.0"), TABLE))))
    listed = json.loads(json.dumps(matrix.list_fields(TABLE)))

    assert made["torch"] == "2.4.0"
    assert {row["version"] for row in listed["torch"]} == set(map(str, TABLE.torch))
    assert sum(len(era["releases"]) + len(era["yanked"]) for era in listed["transformers"]) == len(TABLE.transformers)


def test_plan_and_list_are_read_by_people() -> None:
    out = StringIO()
    console = Console(file=out, width=200)

    matrix.show_plan(planner.resolve(Request(torch="2.4.0", transformers="4.46.0"), TABLE), console)
    matrix.show_list(TABLE, console)

    for word in ("oneccl_bind_pt==2.4.0", "2.4.0-pip-multinode", "was yanked", "4.45 to 4.46", "--use_ipex gone"):
        assert word in out.getvalue()


def test_a_narrow_table_leaves_nothing_out() -> None:
    out = StringIO()

    matrix.show_list(TABLE, Console(file=out, width=60))

    assert out.getvalue().isascii()


def test_a_usual_table_cuts_no_word_of_its_head() -> None:
    out = StringIO()

    matrix.show_list(TABLE, Console(file=out, width=80))

    assert " transformers " in out.getvalue()
