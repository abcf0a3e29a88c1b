"""What `plan` and `list` print; docs/versions.md holds the matrix."""

from __future__ import annotations

import json
from dataclasses import fields
from io import StringIO

from rich.console import Console

from images import content
from images.plan import catalog, matrix, planner
from images.plan.plan import Plan, Request

TABLE = catalog.load()
# Fields of a plan that nobody reads there as they are: shown in other words, or what follows from the rest.
NOT_SHOWN = {"base_reference", "base_suite", "suite", "packages", "cpu_suffix", "source_only", "bindings_index",
             "find_links", "user_packages", "user_files"}  # fmt: skip


def test_every_field_of_a_plan_is_shown_or_is_known_not_to_be() -> None:
    names = {one.name for one in fields(Plan)} - {one.name for one in content.FIELDS}

    assert names == {*matrix.DECIDED} | NOT_SHOWN


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
