"""What `plan` and `list` print, and the matrix of docs/versions.md."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from images.plan import catalog, matrix

TABLE = catalog.load()


def test_a_narrow_table_leaves_nothing_out() -> None:
    out = StringIO()

    matrix.show_list(TABLE, Console(file=out, width=60))

    assert out.getvalue().isascii()
